#include "controller/core/loop/async_groups.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "controller/algorithms/reward_shaping.h"
#include "controller/core/loop/async_admission.h"
#include "controller/core/loop/job_parts.h"
#include "controller/core/trajectories/lost_groups.h"
#include "controller/spec/least_responses.h"
#include "controller/spec/schedule.h"
#include "sdk/base/mutant.h"

namespace baton::controller {
namespace {

constexpr uint64_t kMostWindow = 256;  // draws among which the longest is chosen

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

std::map<uint64_t, TrajectoryInfo> CopyOf(const std::vector<TrajectoryInfo*>& members) {
  std::map<uint64_t, TrajectoryInfo> group;
  for (const TrajectoryInfo* member : members) group.emplace(member->id, *member);
  return group;
}

}  // namespace

uint64_t GroupsPerBatch(const JobParts& job) {
  return static_cast<uint64_t>(std::max(1, job.spec().data().train_batch_size()));
}

std::optional<uint64_t> StalenessOf(const TrajectoryInfo& trajectory, const JobParts& job) {
  if (trajectory.state == TrajectoryState::kPending) return 0;
  return job.versions.Behind(trajectory.policy_version);
}

bool IsStale(const TrajectoryInfo& trajectory, const JobParts& job) {
  const std::optional<uint64_t> behind = StalenessOf(trajectory, job);
  return !behind.has_value() || *behind > ScheduleOf(job.spec()).max_staleness;
}

bool AsyncGroups::IsWhole(uint64_t draw, const JobParts& job) const {
  return job.scheduler.table().DrawReady(draw, draws_.given_up(draw).size());
}

bool AsyncGroups::Stand(JobParts& job) {
  late_.Stand(job.out.now());
  const std::map<uint64_t, uint64_t> open = draws_.open();
  for (const auto& [draw, birth] : open) {
    if (IsWhole(draw, job) && !Judge(draw, job)) return false;
  }
  return true;
}

// ---- Groups begin -------------------------------------------------------------------------------

bool AsyncGroups::MayBeginGroup(const JobParts& job) {
  const uint64_t most = ScheduleOf(job.spec()).max_staleness;
  return MayBeginWithin(std::min(most, pace_.Updates(job.out.now())), job);
}

bool AsyncGroups::MayBeginWithin(uint64_t staleness, const JobParts& job) {
  if (job.life.state() != v1::Job::STATE_RUNNING && job.life.state() != v1::Job::STATE_RECOVERING) {
    return false;
  }
  const uint64_t batch = GroupsPerBatch(job);
  const auto steps_left =
      static_cast<uint64_t>(std::max<int64_t>(0, job.life.job().total_steps() - job.out.step()));
  // A draw that is made again, after a way back, comes before those that are open, and in_order the
  // next batch waits for it. They would wait for each other if they were ahead of it.
  const uint64_t ahead =
      ScheduleOf(job.spec()).in_order ? draws_.OpenBefore(draws_.Next()) : draws_.open().size();
  if (ahead >= steps_left * batch || job.milestones.AtEnd(job.out.step())) return false;
  return MayBegin({staleness, batch, ahead, job.versions.Behind(job.versions.served())});
}

void AsyncGroups::Begin(JobParts& job) {
  const TaskScheduler& rollouts = job.scheduler.queues().rollouts().tasks;
  if (job.versions.served() == 0) return;
  while (rollouts.HasRoom(0) && MayBeginGroup(job)) {
    BeginGroup(job);
    job.GiveOut();
  }
  const bool bounded = rollouts.HasRoom(0) && job.life.state() == v1::Job::STATE_RUNNING;
  paced_ = bounded && MayBeginWithin(ScheduleOf(job.spec()).max_staleness, job);
  if (paced_) pace_.NoteHeldBack();
  if (!bounded) {
    bounded_since_ = absl::InfinitePast();
  } else if (bounded_since_ == absl::InfinitePast()) {
    bounded_since_ = job.out.now();
  }
}

// A long response that begins last in its batch is the one that the batch waits for. Each window of
// draws is begun whole before the next one, so no prompt is put off for good. (The order is LPT,
// longest processing time first: Graham, "Bounds on Multiprocessing Timing Anomalies", 1969.)
uint64_t AsyncGroups::ChooseDraw(JobParts& job) {
  if (!ScheduleOf(job.spec()).longest_first) return draws_.Next();
  uint64_t chosen = draws_.Next();
  double longest = -1;
  for (const uint64_t draw : draws_.Window(std::min(GroupsPerBatch(job), kMostWindow))) {
    const double length = lengths_.Expected(job.data.PromptOf(draw));
    if (length <= longest) continue;
    longest = length;
    chosen = draw;
  }
  return chosen;
}

void AsyncGroups::BeginGroup(JobParts& job) {
  const uint64_t draw = ChooseDraw(job);
  Admission& admission = job.scheduler.admission();
  const uint64_t birth = admission.births().Give(job.scheduler.table().plan().PerDraw(), job.out);
  draws_.Open(draw, birth);
  late_.NoteBegun(draw, job.out.now());
  job.scheduler.AddDraw(admission.MakeDraw(v1::PURPOSE_TRAIN, draw, job.data.PromptOf(draw), birth,
                                           job.scheduler.table(), job.Work()));
}

// ---- Groups are complete ------------------------------------------------------------------------

bool AsyncGroups::NoteReady(uint64_t draw, JobParts& job) {
  if (!IsWhole(draw, job)) return false;
  const std::optional<absl::Time> begun = late_.End(draw);
  if (begun.has_value()) pace_.NoteGroup(job.out.now() - *begun);
  Judge(draw, job);
  return true;
}

bool AsyncGroups::GiveUpStragglers(JobParts& job) {
  bool whole = false;
  for (const uint64_t draw : late_.Due(job)) {
    if (late_.GiveUp(draw, job)) whole = NoteReady(draw, job) || whole;
  }
  return whole;
}

// All responses of the group are READY: keeps it for a batch, or gives it up. False: the job
// failed.
bool AsyncGroups::Judge(uint64_t draw, JobParts& job) {
  const auto members = job.scheduler.table().DrawMembers(draw);
  // It may have begun late, on a rollout that could not get newer weights.
  const auto is_stale = [&](const TrajectoryInfo* member) { return IsStale(*member, job); };
  if (absl::c_any_of(members, is_stale) && !Mutant("stale-group-trained")) {
    DropStaleGroup(draw, job);
    return true;
  }
  const uint32_t least = LeastResponses(job.spec(), job.dataflow());
  const bool lost = !LostGroups(CopyOf(members), least).empty();
  if (lost || TeachesNothing(members, job)) return GiveUp(draw, lost, least, job);
  without_batch_ = 0;
  complete_.Add(draw);
  return true;
}

// The group is `lost`, with fewer than `least` rewards, or teaches nothing: another prompt replaces
// it. False: that happened too often in a row, and the job failed.
bool AsyncGroups::GiveUp(uint64_t draw, bool lost, uint32_t least, JobParts& job) {
  // A reward that fails on every prompt, or a task that is too easy, would use up the data.
  const auto rounds = static_cast<uint64_t>(lost ? job.options.max_attempts
                                                 : job.spec().algorithm().max_num_gen_batches());
  const uint64_t most = rounds * GroupsPerBatch(job);
  const std::string error = LastError(CopyOf(job.scheduler.table().DrawMembers(draw)));
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

void AsyncGroups::DropGroup(uint64_t draw, const std::string& reason, JobParts& job) {
  job.scheduler.DropAll(job.scheduler.table().DrawMembers(draw), reason, job.Work());
  complete_.Remove(draw);
  late_.End(draw);
}

void AsyncGroups::DropStale(JobParts& job) {
  if (judged_version_ == job.versions.newest() || Mutant("stale-group-trained")) return;
  judged_version_ = job.versions.newest();
  std::set<uint64_t> stale;
  std::vector<uint64_t> unfinished;  // stale responses that newer weights may still make again
  for (const auto& [id, trajectory] : job.scheduler.table().all()) {
    if (trajectory.purpose == v1::PURPOSE_EVAL || !IsStale(trajectory, job)) continue;
    const bool saved = ScheduleOf(job.spec()).refresh &&
                       trajectory.state == TrajectoryState::kGenerating &&
                       job.versions.served() != trajectory.policy_version;
    if (saved) {
      unfinished.push_back(id);
    } else {
      stale.insert(trajectory.draw);
    }
  }
  for (const uint64_t draw : stale) DropStaleGroup(draw, job);
  for (const uint64_t id : unfinished) {
    const TrajectoryInfo* const found = job.scheduler.table().Find(id);
    if (found == nullptr) continue;
    job.scheduler.generations().Recall(id, kTooOldToFinish, job.scheduler.Work(), job.Work());
    job.async.refresh.NoteRecalled(1);
  }
}

void AsyncGroups::DropStaleGroup(uint64_t draw, JobParts& job) {
  ++stale_groups_;
  for (const TrajectoryInfo* member : job.scheduler.table().DrawMembers(draw)) {
    stale_tokens_ += member->tokens;
  }
  DropGroup(draw, "its weights are too old to learn from", job);
  draws_.Reopen(draw);  // drawn anew
  job.out.Do(PutJob{});
}

std::vector<uint64_t> AsyncGroups::Sample(const JobParts& job) {
  const uint64_t batch = GroupsPerBatch(job);
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

void AsyncGroups::EndStep(const std::map<std::string, double>& metrics, absl::Time now) {
  const auto took = metrics.find("timing_s/step"), idle = metrics.find("idle/trainer");
  if (took != metrics.end()) {
    pace_.NoteStep(absl::Seconds(took->second), idle == metrics.end() ? 0 : idle->second, now);
  }
  stale_groups_ = stale_tokens_ = untaught_groups_ = 0;
  late_.EndStep();
}

void AsyncGroups::Clear() {
  late_.Clear();
  draws_.CloseAll();
  complete_.Clear();
}

// ---- What is seen of it -------------------------------------------------------------------------

void AsyncGroups::AddMetrics(const JobParts& job, std::map<std::string, double>& metrics) const {
  metrics["buffer/complete_groups"] = static_cast<double>(complete_.size());
  metrics["buffer/open_groups"] = static_cast<double>(draws_.open().size());
  metrics["buffer/stale_dropped_groups"] = static_cast<double>(stale_groups_);
  metrics["buffer/stale_dropped_tokens"] = static_cast<double>(stale_tokens_);
  late_.AddMetrics(job, metrics);
  if (job.spec().algorithm().dynamic_sampling()) {
    metrics["buffer/filtered_groups"] = static_cast<double>(untaught_groups_);
  }
}

void AsyncGroups::Explain(const JobParts& job, WaitList& waits) const {
  late_.Explain(job, waits);
  if (bounded_since_ == absl::InfinitePast()) return;
  const uint64_t ahead = draws_.open().size();
  const std::string cause =
      paced_ ? absl::StrCat("the trainer: ", ahead,
                            " groups are ahead of it; what begins later is complete in time as "
                            "well, with newer weights")
             : absl::StrCat("the trainer: ", ahead,
                            " groups are ahead of it, and one more might be consumed later than "
                            "schedule.max_staleness ",
                            ScheduleOf(job.spec()).max_staleness, " allows");
  waits.Add(paced_ ? "pace" : "staleness", "rollouts", cause, bounded_since_,
            absl::InfiniteDuration(), "they begin groups after its next update");
}

}  // namespace baton::controller
