#include "controller/core/async_groups.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "controller/algorithms/reward_shaping.h"
#include "controller/core/async_admission.h"
#include "controller/core/job_parts.h"
#include "controller/core/lost_groups.h"
#include "controller/spec/least_responses.h"
#include "controller/spec/roles.h"
#include "controller/spec/schedule.h"
#include "sdk/base/mutant.h"

namespace baton::controller {
namespace {

constexpr absl::Duration kLongestLook = absl::Seconds(10);  // between two looks at stragglers
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
  stood_ = job.out.now();
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
  const uint64_t birth = admission.births().Give(job.scheduler.table().PerDraw(), job.out);
  draws_.Open(draw, birth);
  begun_[draw] = job.out.now();
  job.scheduler.AddDraw(admission.MakeDraw(v1::PURPOSE_TRAIN, draw, job.data.PromptOf(draw), birth,
                                           job.scheduler.table(), job.Work()));
}

// ---- Groups are complete ------------------------------------------------------------------------

bool AsyncGroups::NoteReady(uint64_t draw, JobParts& job) {
  if (!IsWhole(draw, job)) return false;
  const auto begun = begun_.find(draw);
  if (begun != begun_.end()) {
    pace_.NoteGroup(job.out.now() - begun->second);
    begun_.erase(begun);
  }
  Judge(draw, job);
  return true;
}

absl::Time AsyncGroups::BegunAt(uint64_t draw) const {
  const auto begun = begun_.find(draw);
  return begun == begun_.end() ? stood_ : begun->second;
}

// While the job has no rollouts, is paused, or its machine is suspended, no response can come; that
// time counts for no group.
void AsyncGroups::SkipOutage(const JobParts& job) {
  const absl::Duration gap = job.out.now() - std::exchange(looked_, job.out.now());
  if (gap <= kLongestLook || gap == absl::InfiniteDuration()) return;
  for (auto& [draw, begun] : begun_) begun += gap;
  stood_ += gap;
}

bool AsyncGroups::GiveUpStragglers(JobParts& job) {
  const absl::Duration timeout = ScheduleOf(job.spec()).group_timeout;
  const bool generates = absl::c_any_of(job.roster().slots(), [](const RoleSlot& slot) {
    return slot.role == roles::kRollout && slot.ready();
  });
  if (timeout == absl::InfiniteDuration() || !generates) return false;
  SkipOutage(job);
  // What an update has begun with is made again as it was.
  const std::set<uint64_t> in_batch = job.async.batch.Draws();
  std::vector<uint64_t> late;
  for (const auto& [draw, birth] : draws_.open()) {
    const bool waits = !complete_.Has(draw) && in_batch.count(draw) == 0;
    if (waits && job.out.now() - BegunAt(draw) >= timeout) late.push_back(draw);
  }
  bool whole = false;
  for (const uint64_t draw : late) whole = GiveUpStragglersOf(draw, job) || whole;
  return whole;
}

bool AsyncGroups::GiveUpStragglersOf(uint64_t draw, JobParts& job) {
  std::vector<TrajectoryInfo*> stragglers, others;
  for (TrajectoryInfo* member : job.scheduler.table().DrawMembers(draw)) {
    const bool responded =
        member->state == TrajectoryState::kScoring || member->state == TrajectoryState::kReady;
    // Without its baseline no response of the prompt has an advantage (ReMax).
    if (!responded && member->purpose == v1::PURPOSE_BASELINE) return false;
    (responded ? others : stragglers).push_back(member);
  }
  const auto responses = absl::c_count_if(
      others, [](const TrajectoryInfo* member) { return member->purpose == v1::PURPOSE_TRAIN; });
  const bool enough =
      responses >= ScheduleOf(job.spec()).min_group_size || Mutant("group-goes-on-too-small");
  if (stragglers.empty() || responses == 0 || !enough) return false;
  given_up_ += stragglers.size();
  for (const TrajectoryInfo* straggler : stragglers) {
    given_up_tokens_ += straggler->tokens;
    lengths_.Note(straggler->prompt_id, straggler->tokens);
    if (!Mutant("given-up-comes-back")) draws_.GiveUp(draw, straggler->sample);
  }
  job.scheduler.DropAll(stragglers, "its group goes on without it", job.Work());
  job.out.Do(PutJob{});
  // A score over the group has waited for them.
  for (TrajectoryInfo* member : others) {
    job.scheduler.scores().EnqueueNext(*member, job.scheduler.Work());
  }
  return NoteReady(draw, job);
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
  begun_.erase(draw);
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
  given_up_ = given_up_tokens_ = 0;
}

void AsyncGroups::Clear() {
  begun_.clear();
  draws_.CloseAll();
  complete_.Clear();
}

// ---- What is seen of it -------------------------------------------------------------------------

void AsyncGroups::AddMetrics(const JobParts& job, std::map<std::string, double>& metrics) const {
  metrics["buffer/complete_groups"] = static_cast<double>(complete_.size());
  metrics["buffer/open_groups"] = static_cast<double>(draws_.open().size());
  metrics["buffer/stale_dropped_groups"] = static_cast<double>(stale_groups_);
  metrics["buffer/stale_dropped_tokens"] = static_cast<double>(stale_tokens_);
  if (ScheduleOf(job.spec()).group_timeout != absl::InfiniteDuration()) {
    metrics["buffer/given_up_responses"] = static_cast<double>(given_up_);
    metrics["buffer/given_up_tokens"] = static_cast<double>(given_up_tokens_);
  }
  if (job.spec().algorithm().dynamic_sampling()) {
    metrics["buffer/filtered_groups"] = static_cast<double>(untaught_groups_);
  }
}

// Groups that would have gone on without their stragglers, had they enough responses.
void AsyncGroups::ExplainLate(const JobParts& job, WaitList& waits) const {
  const Schedule schedule = ScheduleOf(job.spec());
  if (schedule.group_timeout == absl::InfiniteDuration()) return;
  uint64_t late = 0;
  absl::Time since = absl::InfiniteFuture();
  for (const auto& [draw, birth] : draws_.open()) {
    const absl::Time due = BegunAt(draw) + schedule.group_timeout;
    if (due > job.out.now() || complete_.Has(draw) || IsWhole(draw, job)) continue;
    ++late;
    since = std::min(since, due);
  }
  if (late == 0) return;
  waits.Add("late_group", absl::StrCat(late, late == 1 ? " group" : " groups"),
            absl::StrCat("responses: schedule.group_timeout_seconds have passed, and fewer than "
                         "schedule.min_group_size ",
                         schedule.min_group_size, " are there, or their scores are not"),
            since, absl::InfiniteDuration(), "a later batch takes what is complete then");
}

void AsyncGroups::Explain(const JobParts& job, WaitList& waits) const {
  ExplainLate(job, waits);
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
