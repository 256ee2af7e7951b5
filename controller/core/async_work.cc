#include "controller/core/async_work.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "controller/algorithms/reward_shaping.h"
#include "controller/core/async_admission.h"
#include "controller/core/evaluation.h"
#include "controller/core/job_parts.h"
#include "controller/core/lost_groups.h"
#include "controller/core/worker_changes.h"
#include "controller/spec/roles.h"
#include "controller/spec/schedule.h"
#include "sdk/base/mutant.h"

namespace baton::controller {
namespace {

using Trajectories = std::map<uint64_t, TrajectoryInfo>;

uint64_t BatchGroups(const JobParts& job) {
  return static_cast<uint64_t>(std::max(1, job.spec().data().train_batch_size()));
}

bool AllReady(const std::vector<TrajectoryInfo*>& members, uint32_t per_draw) {
  return members.size() == per_draw && absl::c_all_of(members, [](const TrajectoryInfo* member) {
           return member->state == TrajectoryState::kReady;
         });
}

// How far behind the newest weights those are that made the response, or are making it; nothing:
// that is not known. One that is not begun takes newer weights when it begins.
std::optional<uint64_t> StalenessOf(const TrajectoryInfo& trajectory, const JobParts& job) {
  if (trajectory.state == TrajectoryState::kPending) return 0;
  return job.versions.Behind(trajectory.policy_version);
}

bool IsStale(const TrajectoryInfo& trajectory, const JobParts& job) {
  const std::optional<uint64_t> behind = StalenessOf(trajectory, job);
  return !behind.has_value() || *behind > ScheduleOf(job.spec()).max_staleness;
}

// The smallest serial of the trajectories that the job works with.
uint64_t OldestSerial(const JobParts& job) {
  uint64_t oldest = ExperienceBuffer::kNoSerial;
  const auto look = [&](const Trajectories& trajectories) {
    for (const auto& [id, trajectory] : trajectories) {
      if (trajectory.serial != 0) oldest = std::min(oldest, trajectory.serial);
    }
  };
  look(job.scheduler.table().all());
  look(job.buffer.taken());
  return oldest;
}

// Of a trajectory as it was stored: what was made of it at a draw is kept, or forgotten.
void RecallDraw(bool kept, const JobParts& job, TrajectoryInfo& trajectory) {
  const ScoreGraph& graph = job.scheduler.table().graph();
  if (graph.at_draw() == 0 || trajectory.serial == 0) return;
  if (kept) {
    trajectory.drawn = true;
    const bool ready = (job.scheduler.table().Wanted(trajectory) & ~trajectory.scored) == 0;
    trajectory.state = ready ? TrajectoryState::kReady : TrajectoryState::kScoring;
    return;
  }
  for (uint32_t node = 0; node < trajectory.tries.size(); ++node) {
    if ((graph.at_draw() >> node & 1) != 0) trajectory.columns.erase(node);
  }
  trajectory.scored &= ~graph.at_draw();
}

// With dynamic sampling (DAPO, arXiv 2503.14476, section 3.2) such a group is replaced.
bool TeachesNothing(const std::vector<TrajectoryInfo*>& members, const JobParts& job) {
  if (!job.spec().algorithm().dynamic_sampling()) return false;
  const auto& options = job.dataflow().advantage().options().fields();
  const auto named = options.find("filter_metric");
  const std::string metric = named == options.end() ? "reward" : named->second.string_value();
  std::vector<double> rewards;
  for (const TrajectoryInfo* member : members) {
    if (member->purpose != v1::PURPOSE_TRAIN || member->failed != 0) continue;
    const auto found = member->scores.find(metric);
    rewards.push_back(found != member->scores.end() ? found->second : member->scores.at("reward"));
  }
  return rewards.size() > 1 && algorithms::AllEqual(rewards);
}

}  // namespace

void AsyncWork::Restore(const store::v1::JobRow& row) {
  draws_.Restore(row);
  evaluation_.Restore(row);
  for (const store::v1::OpenDraws& open : row.open_draws()) {
    for (uint64_t i = 0; open.in_batch() && i < open.count(); ++i) {
      restored_.push_back(open.draw() + i);
    }
  }
}

void AsyncWork::Save(const JobParts& job, store::v1::JobRow* row) const {
  std::set<uint64_t> in_batch(restored_.begin(), restored_.end());
  in_batch.insert(taken_.begin(), taken_.end());
  draws_.Save(job.scheduler.table().PerDraw(), in_batch, row);
  evaluation_.Save(row);
}

// ---- A restart ----------------------------------------------------------------------------------

bool AsyncWork::Recalls(const store::v1::TrajectoryRow& row, uint32_t per_draw) const {
  if (row.purpose() == v1::PURPOSE_EVAL)
    return evaluation_.active() && evaluation_.Has(row.birth());
  return draws_.Has(row.draw(), row.birth(), per_draw) || Mutant("spent-response-recalled");
}

bool AsyncWork::HasBirth(uint64_t birth, uint32_t per_draw) const {
  return draws_.HasBirth(birth, per_draw) || (evaluation_.active() && evaluation_.Has(birth));
}

void AsyncWork::Stand(JobParts& job) {
  const absl::Time now = job.out.now();
  times_ = {now, now, now};
  TrajectoryScheduler& scheduler = job.scheduler;
  // What was made at a draw counts for the batch that its update has begun with, and for no other.
  const bool updates = job.commands.Any(TaskKind::kUpdate);
  const std::set<uint64_t> in_batch(restored_.begin(), restored_.end());
  for (const auto& [draw, birth] : draws_.open()) {
    std::vector<TrajectoryInfo> made = scheduler.admission().MakeDraw(
        v1::PURPOSE_TRAIN, draw, job.data.PromptOf(draw), birth, scheduler.table(), job.Work());
    const bool kept = updates && in_batch.count(draw) > 0;
    for (TrajectoryInfo& trajectory : made) RecallDraw(kept, job, trajectory);
    scheduler.AddDraw(std::move(made));
  }
  evaluation_.GoOn(now);
  const uint32_t samples = scheduler.table().Samples(v1::PURPOSE_EVAL);
  // The data may have changed while the controller was away: then it is due again.
  if (evaluation_.left(samples) != job.data.ValSize(job.spec().data())) evaluation_.End();
  while (evaluation_.left(samples) > 0) DrawEvaluation(job);
  job.buffer.ForgetFound();
  job.buffer.BeginStep(job.options.kept_steps, KeepsAllExperience(job.spec()), job.out,
                       OldestSerial(job));
  // Judged in the order of their draws: in which order they were complete is not stored.
  const std::map<uint64_t, uint64_t> open = draws_.open();
  for (const auto& [draw, birth] : open) {
    const auto members = scheduler.table().DrawMembers(draw);
    if (AllReady(members, scheduler.table().PerDraw()) && !JudgeGroup(draw, job)) return;
  }
}

// ---- Groups begin -------------------------------------------------------------------------------

bool AsyncWork::MayBeginGroup(const JobParts& job) {
  if (job.life.state() != v1::Job::STATE_RUNNING && job.life.state() != v1::Job::STATE_RECOVERING) {
    return false;
  }
  const uint64_t batch = BatchGroups(job);
  const auto steps_left =
      static_cast<uint64_t>(std::max<int64_t>(0, job.life.job().total_steps() - job.out.step()));
  const Schedule schedule = ScheduleOf(job.spec());
  // A draw that is made again, after a way back, comes before those that are open, and in_order the
  // next batch waits for it. They would wait for each other if they were ahead of it.
  const uint64_t ahead =
      schedule.in_order ? draws_.OpenBefore(draws_.Next()) : draws_.open().size();
  if (ahead >= steps_left * batch || job.milestones.AtEnd(job.out.step())) return false;
  return MayBegin(
      {schedule.max_staleness, batch, ahead, job.versions.Behind(job.versions.served())});
}

void AsyncWork::BeginGroups(JobParts& job) {
  // Draws that an earlier controller began come first: their tasks may run.
  if (!job.work.begun() || !job.data.loaded()) return;
  TaskScheduler& rollouts = job.scheduler.queues().rollouts().tasks;
  const uint32_t samples = job.scheduler.table().Samples(v1::PURPOSE_EVAL);
  // Until some of it waits for a rollout of its version, which may have to load that first.
  while (evaluation_.left(samples) > 0 && rollouts.PinnedVersion() == 0) {
    DrawEvaluation(job);
    job.LoadWeights();
    job.GiveOut();
  }
  if (job.versions.served() == 0) return;
  while (rollouts.HasRoom(0) && MayBeginGroup(job)) {
    BeginGroup(job);
    job.GiveOut();
  }
  const bool bounded = rollouts.HasRoom(0) && job.life.state() == v1::Job::STATE_RUNNING;
  if (!bounded) {
    bounded_since_ = absl::InfinitePast();
  } else if (bounded_since_ == absl::InfinitePast()) {
    bounded_since_ = job.out.now();
  }
}

void AsyncWork::BeginGroup(JobParts& job) {
  const uint64_t draw = draws_.Next();
  Admission& admission = job.scheduler.admission();
  const uint64_t birth = admission.births().Give(job.scheduler.table().PerDraw(), job.out);
  draws_.Open(draw, birth);
  job.scheduler.AddDraw(admission.MakeDraw(v1::PURPOSE_TRAIN, draw, job.data.PromptOf(draw), birth,
                                           job.scheduler.table(), job.Work()));
}

// ---- Groups are complete ------------------------------------------------------------------------

bool AsyncWork::NoteProgress(uint64_t trajectory, JobParts& job) {
  const TrajectoryInfo* const found = job.scheduler.table().Find(trajectory);
  if (found == nullptr || found->state != TrajectoryState::kReady) return false;
  if (found->purpose == v1::PURPOSE_EVAL) {
    FinishEvaluationIfDone(job);
    return !evaluation_.active();
  }
  if (found->drawn) return true;  // it was judged; the trainer looks after it
  const uint64_t draw = found->draw;
  const auto members = job.scheduler.table().DrawMembers(draw);
  if (!AllReady(members, job.scheduler.table().PerDraw())) return false;
  JudgeGroup(draw, job);
  return true;
}

bool AsyncWork::JudgeGroup(uint64_t draw, JobParts& job) {
  const auto members = job.scheduler.table().DrawMembers(draw);
  // It may have begun late, on a rollout that could not get newer weights.
  const auto is_stale = [&](const TrajectoryInfo* member) { return IsStale(*member, job); };
  if (absl::c_any_of(members, is_stale) && !Mutant("stale-group-trained")) {
    DropStaleGroup(draw, job);
    return true;
  }
  Trajectories group;
  for (const TrajectoryInfo* member : members) group.emplace(member->id, *member);
  const uint32_t least = LeastResponses(job.spec(), job.dataflow());
  const bool lost = !LostGroups(group, least).empty();
  const bool untaught = !lost && TeachesNothing(members, job);
  if (!lost && !untaught) {
    without_batch_ = 0;
    complete_.Add(draw);
    return true;
  }
  // A reward that fails on every prompt, or a task that is too easy, would use up the data.
  const auto rounds = static_cast<uint64_t>(lost ? job.options.max_attempts
                                                 : job.spec().algorithm().max_num_gen_batches());
  const uint64_t most = rounds * BatchGroups(job);
  const std::string error = LastError(group);
  DropGroup(draw, "its group is given up", job);
  draws_.Spend(draw);
  job.out.Do(PutJob{});
  if (++without_batch_ < most) {
    if (lost) {
      job.out.Warn(absl::StrCat("a group of step ", job.out.step() + 1, " has fewer than ", least,
                                least == 1 ? " response" : " responses",
                                " with a reward, because rewards failed: ", error,
                                "; another prompt replaces it"));
    } else {
      ++untaught_groups_;
    }
    return true;
  }
  job.life.Fail(
      lost
          ? absl::UnavailableError(
                absl::StrCat(without_batch_, " groups in a row have fewer than ", least,
                             " responses with a reward, because rewards failed: ", error,
                             "; correct the reward and go on from the newest checkpoint, or set "
                             "reward.error_reward to give such responses that reward"))
          : absl::FailedPreconditionError(absl::StrCat(
                "dynamic sampling: none of ", without_batch_,
                " groups in a row has rewards that differ, so there is nothing to learn from them; "
                "the task is too easy or too hard for the policy: change the data, give rollout.n "
                "more samples, or raise algorithm.max_num_gen_batches")),
      job);
  return false;
}

void AsyncWork::NoteLost(const TrajectoryInfo& trajectory, JobParts& job) {
  if (trajectory.purpose == v1::PURPOSE_EVAL) return;
  if (trajectory.drawn) Undraw("its batch lacks a response", job);
  complete_.Remove(trajectory.draw);
}

bool AsyncWork::LosesRestoredBatch(const PayloadLost& event, const JobParts& job) const {
  if (restored_.empty() || !job.commands.Any(TaskKind::kUpdate)) return false;
  return absl::c_any_of(event.trajectories, [&](const auto& lost) {
    const TrajectoryInfo* const found = job.scheduler.table().Find(lost.first);
    return found != nullptr && found->serial == lost.second && found->purpose != v1::PURPOSE_EVAL &&
           absl::c_count(restored_, found->draw) > 0;
  });
}

void AsyncWork::DropGroup(uint64_t draw, const std::string& reason, JobParts& job) {
  job.scheduler.DropAll(job.scheduler.table().DrawMembers(draw), reason, job.Work());
  complete_.Remove(draw);
}

void AsyncWork::DropStale(JobParts& job) {
  if (judged_version_ == job.versions.newest() || Mutant("stale-group-trained")) return;
  judged_version_ = job.versions.newest();
  std::set<uint64_t> stale;
  for (const auto& [id, trajectory] : job.scheduler.table().all()) {
    if (trajectory.purpose != v1::PURPOSE_EVAL && IsStale(trajectory, job)) {
      stale.insert(trajectory.draw);
    }
  }
  for (const uint64_t draw : stale) DropStaleGroup(draw, job);
}

void AsyncWork::DropStaleGroup(uint64_t draw, JobParts& job) {
  ++stale_groups_;
  for (const TrajectoryInfo* member : job.scheduler.table().DrawMembers(draw)) {
    stale_tokens_ += member->tokens;
  }
  DropGroup(draw, "its weights are too old to learn from", job);
  draws_.Reopen(draw);  // drawn anew
  job.out.Do(PutJob{});
}

// ---- The batch ----------------------------------------------------------------------------------

std::vector<uint64_t> AsyncWork::Sample(const JobParts& job) {
  const uint64_t batch = BatchGroups(job);
  if (complete_.size() < batch) return {};
  if (!ScheduleOf(job.spec()).in_order) return complete_.First(batch);
  std::vector<uint64_t> chosen;
  for (const auto& [draw, birth] : draws_.open()) {
    if (chosen.size() == batch) break;
    if (!complete_.Has(draw)) return {};  // the batch waits for it
    chosen.push_back(draw);
  }
  // An older draw may be about to be made again.
  if (!chosen.empty() && draws_.Next() < chosen.back()) return {};
  return chosen;
}

bool AsyncWork::DrawBatch(JobParts& job) {
  restored_.clear();  // a batch that was built, and that no update had begun with
  DropStale(job);
  const std::vector<uint64_t> chosen = Sample(job);
  if (chosen.size() < BatchGroups(job)) return false;
  // Whatever was checked before: nothing that is too old is trained on.
  for (const uint64_t draw : chosen) {
    for (const TrajectoryInfo* member : job.scheduler.table().DrawMembers(draw)) {
      if (!IsStale(*member, job) || Mutant("stale-group-trained")) continue;
      job.life.Fail(absl::InternalError(absl::StrCat(
                        "not consumed: ", TrajectoryName(member->id), " is of version ",
                        member->policy_version, ", too old for version ", job.versions.newest())),
                    job);
      return false;
    }
  }
  for (const uint64_t draw : chosen) {
    complete_.Remove(draw);
    job.scheduler.Draw(job.scheduler.table().DrawMembers(draw));
  }
  drawn_ = chosen;
  scored_ = 0;
  return true;
}

bool AsyncWork::TakeBatch(JobParts& job) {
  if (drawn_.empty() && !DrawBatch(job)) return false;
  const uint32_t per_draw = job.scheduler.table().PerDraw();
  while (scored_ < drawn_.size() &&
         AllReady(job.scheduler.table().DrawMembers(drawn_[scored_]), per_draw)) {
    ++scored_;
  }
  if (scored_ < drawn_.size()) return false;
  Take(std::exchange(drawn_, {}), job);
  return true;
}

void AsyncWork::Undraw(const std::string& reason, JobParts& job) {
  for (const uint64_t draw : drawn_) {
    job.scheduler.Undraw(job.scheduler.table().DrawMembers(draw), reason, job.Work());
  }
  complete_.AddFirst(drawn_);
  drawn_.clear();
}

void AsyncWork::Take(std::vector<uint64_t> draws, JobParts& job) {
  for (const uint64_t draw : draws) {
    job.buffer.Take(job.scheduler.table().TakeDraw(draw));
  }
  taken_ = std::move(draws);
  times_.generated = times_.scored = job.out.now();
}

bool AsyncWork::HasRestoredBatch() const {
  return !taken_.empty() ||
         absl::c_all_of(restored_, [&](uint64_t draw) { return complete_.Has(draw); });
}

bool AsyncWork::TakeRestoredBatch(JobParts& job) {
  if (!HasRestoredBatch()) return false;
  for (const uint64_t draw : restored_) complete_.Remove(draw);
  Take(std::exchange(restored_, {}), job);
  return true;
}

void AsyncWork::GiveBatchBack(const std::string& reason, JobParts& job) {
  for (auto& [id, trajectory] : job.buffer.GiveBack()) {
    job.scheduler.table().Add(std::move(trajectory));
    job.scheduler.table().CountReady();
  }
  // Of a batch that a restart has not taken yet, what was made at its draw is of no use either.
  drawn_.insert(drawn_.end(), taken_.begin(), taken_.end());
  std::vector<uint64_t> restored = std::exchange(restored_, {});
  for (const uint64_t draw : restored) {
    if (complete_.Has(draw)) drawn_.push_back(draw);
  }
  taken_.clear();
  std::sort(drawn_.begin(), drawn_.end());
  Undraw(reason, job);
}

void AsyncWork::Consume() {
  for (const uint64_t draw : std::exchange(taken_, {})) {
    if (Mutant("group-consumed-twice")) {
      draws_.Reopen(draw);
    } else {
      draws_.Spend(draw);
    }
  }
}

void AsyncWork::EndStep(JobParts& job) {
  job.buffer.EndBatch(job.out);
  job.scheduler.scores().errors().Begin();
  job.scheduler.table().BeginStep();
  times_.began = job.out.now();
  stale_groups_ = stale_tokens_ = untaught_groups_ = 0;
  job.buffer.BeginStep(job.options.kept_steps, KeepsAllExperience(job.spec()), job.out,
                       OldestSerial(job));
  job.scheduler.queues().ForEach([&](const std::string& role, RoleQueue& queue) {
    DrainSlow(queue.stragglers, role, role == roles::kRollout ? "token" : "response", job);
  });
}

void AsyncWork::RollBack(const std::string& reason, JobParts& job) {
  GiveBatchBack(reason, job);
  if (evaluation_.active() && evaluation_.pin().step > job.milestones.way_back()) {
    DropEvaluation(reason, job);
  }
  without_batch_ = 0;
}

void AsyncWork::Clear() {
  draws_.CloseAll();
  complete_.Clear();
  drawn_.clear();
  taken_.clear();
  restored_.clear();
  evaluation_.End();
}

// ---- The evaluation -----------------------------------------------------------------------------

void AsyncWork::BeginEvaluation(JobParts& job) {
  const uint64_t births =
      job.data.ValSize(job.spec().data()) * job.scheduler.table().Samples(v1::PURPOSE_EVAL);
  evaluation_.Begin({job.versions.served(), job.out.step()},
                    job.scheduler.admission().births().Give(births, job.out), births,
                    job.out.now());
}

void AsyncWork::DrawEvaluation(JobParts& job) {
  uint64_t birth = 0;
  const uint64_t prompt = evaluation_.Draw(job.scheduler.table().Samples(v1::PURPOSE_EVAL), &birth);
  std::vector<TrajectoryInfo> made = job.scheduler.admission().MakeDraw(
      v1::PURPOSE_EVAL, prompt, prompt, birth, job.scheduler.table(), job.Work());
  for (TrajectoryInfo& trajectory : made) trajectory.pin = evaluation_.pin();
  job.scheduler.AddDraw(std::move(made));
  // What was stored before a restart may be all of it.
  FinishEvaluationIfDone(job);
}

void AsyncWork::FinishEvaluationIfDone(JobParts& job) {
  TrajectoryTable& table = job.scheduler.table();
  if (!evaluation_.active() || evaluation_.left(table.Samples(v1::PURPOSE_EVAL)) > 0) return;
  const auto& all = table.all();
  for (auto it = all.lower_bound(TrajectoryId(v1::PURPOSE_EVAL, 0, 0, 1));
       it != all.end() && it->second.purpose == v1::PURPOSE_EVAL; ++it) {
    if (it->second.state != TrajectoryState::kReady) return;
  }
  const int64_t step = evaluation_.pin().step;
  const absl::Time began = evaluation_.began();
  evaluation_.End();
  const Trajectories trajectories = table.TakeEvaluation();
  DropPayloads drop;
  for (const auto& [id, trajectory] : trajectories) drop.trajectories.push_back(id);
  job.out.Do(std::move(drop));
  TellEvaluation(step, began, trajectories, job);
}

void AsyncWork::DropEvaluation(const std::string& reason, JobParts& job) {
  std::vector<TrajectoryInfo*> members;
  for (const auto& [id, trajectory] : job.scheduler.table().all()) {
    if (trajectory.purpose == v1::PURPOSE_EVAL) members.push_back(job.scheduler.table().Find(id));
  }
  job.scheduler.DropAll(members, reason, job.Work());
  evaluation_.End();
  job.out.Do(PutJob{});
}

// ---- What is seen of it -------------------------------------------------------------------------

std::map<std::string, double> AsyncWork::Metrics(const JobParts& job) const {
  std::map<std::string, double> metrics;
  double sum = 0, least = 0, most = 0, count = 0;
  std::map<uint64_t, double> at;  // responses, by staleness
  for (const auto& [id, trajectory] : job.buffer.taken()) {
    if (trajectory.purpose != v1::PURPOSE_TRAIN) continue;
    const uint64_t updates = StalenessOf(trajectory, job).value_or(0);
    const auto behind = static_cast<double>(updates);
    ++at[updates];
    least = count == 0 ? behind : std::min(least, behind);
    most = std::max(most, behind);
    sum += behind;
    ++count;
  }
  // Every bar of the histogram, or it would seem as high as in the last step that had it.
  for (uint64_t k = 0; count > 0 && k <= ScheduleOf(job.spec()).max_staleness; ++k) {
    metrics[absl::StrCat("staleness/share_", k)] = at[k] / count;
  }
  if (count > 0) {
    metrics["staleness/mean"] = sum / count;
    metrics["staleness/min"] = least;
    metrics["staleness/max"] = most;
  }
  metrics["buffer/complete_groups"] = static_cast<double>(complete_.size());
  metrics["buffer/open_groups"] = static_cast<double>(draws_.open().size());
  metrics["buffer/stale_dropped_groups"] = static_cast<double>(stale_groups_);
  metrics["buffer/stale_dropped_tokens"] = static_cast<double>(stale_tokens_);
  if (job.spec().algorithm().dynamic_sampling()) {
    metrics["buffer/filtered_groups"] = static_cast<double>(untaught_groups_);
  }
  return metrics;
}

void AsyncWork::Explain(const JobParts& job, WaitList& waits) const {
  const uint64_t batch = BatchGroups(job);
  if (job.doing.Is(Activity::kGenerate) && !drawn_.empty()) {
    waits.Add("batch", absl::StrCat("step ", job.out.step() + 1),
              "scores of its responses that are made when the batch is drawn", job.doing.since(),
              absl::InfiniteDuration(), "the trainer goes on with them");
  } else if (job.doing.Is(Activity::kGenerate)) {
    waits.Add("batch", absl::StrCat("step ", job.out.step() + 1),
              absl::StrCat(batch, " complete groups; the buffer has ", complete_.size(), ", and ",
                           draws_.open().size() - complete_.size(), " are under way"),
              job.doing.since(), absl::InfiniteDuration(), "the trainer goes on with them");
  }
  if (job.doing.Is(Activity::kEvaluate)) {
    waits.Add("evaluation", absl::StrCat("step ", job.out.step() + 1), evaluation_.name(),
              job.doing.since(), absl::InfiniteDuration(), "the trainer goes on after it");
  }
  if (bounded_since_ != absl::InfinitePast()) {
    waits.Add("staleness", "rollouts",
              absl::StrCat("the trainer: ", draws_.open().size(),
                           " groups are ahead of it, and one "
                           "more might be consumed later than schedule.max_staleness ",
                           ScheduleOf(job.spec()).max_staleness, " allows"),
              bounded_since_, absl::InfiniteDuration(), "they begin groups after its next update");
  }
}

}  // namespace baton::controller
