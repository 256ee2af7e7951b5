#include "controller/core/loop/group_flow.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "controller/algorithms/reward_shaping.h"
#include "controller/core/loop/life_changes.h"
#include "controller/core/loop/rollback.h"
#include "controller/core/trajectories/lost_groups.h"
#include "controller/spec/dataflow/role_names.h"
#include "controller/spec/dataflow/roles.h"
#include "controller/spec/settings/least_responses.h"

namespace baton::controller {
namespace {

// With dynamic sampling (DAPO, arXiv 2503.14476, section 3.2) such a group is replaced.
bool HasNoAdvantage(const std::vector<TrajectoryInfo*>& members, const JobParts& job) {
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

void DropStaleGroup(uint64_t prompt_index, JobParts& job) {
  PromptGroups& groups = job.prompt_groups;
  ++groups.stale;
  for (const TrajectoryInfo* member : job.scheduler.table().GroupMembers(prompt_index)) {
    groups.stale_tokens += member->tokens;
  }
  DropGroup(prompt_index, "its weights are too old to learn from", job);
  groups.prompts.Reopen(prompt_index);  // it begins anew
  job.out.Do(PutJob{});
  job.Then(FollowUp::kAdvance);
}

// A reward that fails on every prompt would use up the data without a single step.
void TellLostGroup(const std::string& error, uint32_t least, JobParts& job) {
  const uint64_t lost = job.prompt_groups.lost;
  // A first round, and as many replacements of it as there are further attempts.
  const uint64_t most = (job.options.max_attempts + 1) * job.GroupsPerBatch();
  const std::string what =
      absl::StrCat(" fewer than ", least, least == 1 ? " response" : " responses",
                   " with a reward, because rewards failed: ", error);
  const bool in_batch = !job.batch.selected.empty() || !job.batch.taken.empty();
  if (lost >= most && !in_batch && job.prompt_groups.complete.size() < job.GroupsPerBatch()) {
    return Fail(absl::UnavailableError(absl::StrCat(
                    lost, " groups of step ", job.out.step() + 1, " have", what,
                    "; correct the reward and go on from the newest checkpoint, or set "
                    "reward.error_reward to give such responses that reward")),
                job);
  }
  if (lost > 1) return;  // they are counted
  job.out.Warn(absl::StrCat("a group of step ", job.out.step() + 1, " has", what,
                            "; another prompt replaces it, and further ones of the step, which "
                            "train/groups_replaced counts"));
}

// All responses of the group are READY: keeps it for a batch, or gives it up.
void JudgeGroup(uint64_t prompt_index, JobParts& job) {
  PromptGroups& groups = job.prompt_groups;
  job.Then(FollowUp::kAdvance);
  const auto members = job.scheduler.table().GroupMembers(prompt_index);
  // The response may have begun late, on a rollout that could not get newer weights.
  const auto is_stale = [&](const TrajectoryInfo* member) { return job.IsStale(*member); };
  if (absl::c_any_of(members, is_stale)) {
    return DropStaleGroup(prompt_index, job);
  }
  const uint32_t least = LeastResponses(job.spec(), job.dataflow());
  const std::map<uint64_t, TrajectoryInfo> group = CopyOf(members);
  const bool lost = job.is_rl() && !LostGroups(group, least).empty();
  if (!lost && !HasNoAdvantage(members, job)) return groups.complete.Add(prompt_index);
  // Another prompt replaces it.
  job.scheduler.SpendGroup(prompt_index, job.Work());
  groups.prompts.Spend(prompt_index);
  job.out.Do(PutJob{});
  ++(lost ? groups.lost : groups.filtered);
  for (const auto& [id, member] : group) groups.given_up.Add(member);
  if (lost) return TellLostGroup(LastError(group), least, job);
  if (absl::Status few = CheckFilteredGroups(job); !few.ok()) Fail(few, job);
}

// Groups that have waited for their stragglers for long enough.
std::vector<uint64_t> OverdueGroups(JobParts& job) {
  const absl::Duration timeout = job.schedule.group_timeout;
  const bool generates = absl::c_any_of(job.roster().slots(), [](const RoleSlot& slot) {
    return slot.role == roles::kRollout && slot.ready();
  });
  if (timeout == absl::InfiniteDuration() || !generates || !job.data.loaded()) return {};
  PromptGroups& groups = job.prompt_groups;
  groups.late.Look(job.out.now());
  // The groups of an update that has begun must be made again exactly as they were.
  const std::set<uint64_t> in_batch = job.batch.PromptIndices();
  std::vector<uint64_t> late;
  for (const auto& [prompt_index, trajectory_uid] : groups.prompts.open()) {
    const bool waits = !groups.complete.Has(prompt_index) && in_batch.count(prompt_index) == 0;
    if (waits && job.out.now() - groups.late.BegunAt(prompt_index) >= timeout) {
      late.push_back(prompt_index);
    }
  }
  return late;
}

// Lets the group go on without its missing responses, if it has enough others. False: it waits on.
bool GoesOnWithout(uint64_t prompt_index, JobParts& job) {
  std::vector<TrajectoryInfo*> stragglers, others;
  for (TrajectoryInfo* member : job.scheduler.table().GroupMembers(prompt_index)) {
    const bool responded =
        member->state == TrajectoryState::kScoring || member->state == TrajectoryState::kReady;
    // Without its baseline no response of the prompt has an advantage (ReMax).
    if (!responded && member->purpose == v1::PURPOSE_BASELINE) return false;
    (responded ? others : stragglers).push_back(member);
  }
  const auto responses = absl::c_count_if(
      others, [](const TrajectoryInfo* member) { return member->purpose == v1::PURPOSE_TRAIN; });
  if (stragglers.empty() || responses == 0 || responses < job.schedule.min_group_size) return false;
  for (const TrajectoryInfo* straggler : stragglers) {
    job.prompt_groups.late.NoteGivenUp(straggler->tokens);
    job.prompt_groups.lengths.Note(straggler->prompt_id, straggler->tokens);
    job.prompt_groups.prompts.GiveUp(prompt_index, straggler->sample);
  }
  job.scheduler.DropAll(stragglers, "its group goes on without it", job.Work());
  job.out.Do(PutJob{});
  // A score over the group has waited for the missing responses.
  for (TrajectoryInfo* member : others) {
    job.scheduler.scores().EnqueueNext(*member, job.scheduler.Work());
  }
  return true;
}

// Sets every bar of the histogram; a missing bar would keep the value of an earlier step.
void AddStaleness(const JobParts& job, std::map<std::string, double>& metrics) {
  double sum = 0, least = 0, most = 0, count = 0;
  std::map<uint64_t, double> at;  // responses, by staleness
  for (const auto& [id, trajectory] : job.buffer.taken()) {
    if (trajectory.purpose != v1::PURPOSE_TRAIN) continue;
    const uint64_t updates = job.StalenessOf(trajectory).value_or(0);
    const auto behind = static_cast<double>(updates);
    ++at[updates];
    least = count == 0 ? behind : std::min(least, behind);
    most = std::max(most, behind);
    sum += behind;
    ++count;
  }
  if (count == 0) return;
  for (uint64_t k = 0; k <= job.schedule.max_staleness; ++k) {
    metrics[absl::StrCat("staleness/share_", k)] = at[k] / count;
  }
  metrics["staleness/mean"] = sum / count;
  metrics["staleness/min"] = least;
  metrics["staleness/max"] = most;
}

}  // namespace

void NoteGroupReady(uint64_t prompt_index, JobParts& job) {
  if (!job.IsWhole(prompt_index)) return;
  job.prompt_groups.late.End(prompt_index);
  JudgeGroup(prompt_index, job);
}

void JudgeRestoredGroups(JobParts& job) {
  const std::map<uint64_t, uint64_t> open = job.prompt_groups.prompts.open();
  for (const auto& [prompt_index, trajectory_uid] : open) {
    if (job.life.runs() && job.IsWhole(prompt_index)) JudgeGroup(prompt_index, job);
  }
}

absl::Status CheckFilteredGroups(const JobParts& job) {
  const PromptGroups& groups = job.prompt_groups;
  const auto batches = static_cast<uint64_t>(job.spec().algorithm().max_num_gen_batches());
  const uint64_t complete = groups.complete.size();
  const uint64_t drawn = groups.filtered + complete;
  const bool enough = complete + job.batch.selected.size() + job.batch.taken.size() >=
                      job.GroupsPerBatch();  // of the next step, or of this one
  if (groups.filtered == 0 || enough || drawn < batches * GenBatchSize(job.spec())) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "dynamic sampling: after ", batches, " batches of ", GenBatchSize(job.spec()),
      " prompts only ", complete, " of ", job.GroupsPerBatch(),
      " groups have rewards that differ, so there is nothing to learn from the others; the task is "
      "too easy or too hard for the policy: change the data, give rollout.n more samples, or raise "
      "algorithm.max_num_gen_batches"));
}

void DropStaleGroups(JobParts& job) {
  if (job.prompt_groups.judged_version == job.versions.newest()) {
    return;
  }
  job.prompt_groups.judged_version = job.versions.newest();
  std::set<uint64_t> stale;
  std::vector<uint64_t> unfinished;  // stale responses that newer weights may still make again
  for (const auto& [id, trajectory] : job.scheduler.table().all()) {
    if (trajectory.purpose == v1::PURPOSE_EVAL || !job.IsStale(trajectory)) continue;
    const bool saved = job.schedule.refresh && trajectory.state == TrajectoryState::kGenerating &&
                       job.versions.served() != trajectory.policy_version;
    if (saved) {
      unfinished.push_back(id);
    } else {
      stale.insert(trajectory.prompt_index);
    }
  }
  for (const uint64_t prompt_index : stale) DropStaleGroup(prompt_index, job);
  for (const uint64_t id : unfinished) {
    const TrajectoryInfo* const found = job.scheduler.table().Find(id);
    if (found == nullptr) continue;
    job.scheduler.generations().Recall(id, kTooOldToFinish, job.scheduler.Work(), job.Work());
    job.outdated.refresh.NoteRecalled(1);
  }
}

void GiveUpStragglers(JobParts& job) {
  if (!job.work.begun()) return;
  for (const uint64_t prompt_index : OverdueGroups(job)) {
    if (GoesOnWithout(prompt_index, job)) NoteGroupReady(prompt_index, job);
  }
}

std::vector<uint64_t> SampleGroups(JobParts& job) {
  PromptGroups& groups = job.prompt_groups;
  const uint64_t batch = job.GroupsPerBatch();
  if (groups.complete.size() < batch) return {};
  // All groups of a round are judged before the first ones are taken, so the choice does not depend
  // on the order in which groups complete.
  const bool judged = groups.complete.size() == groups.prompts.open().size();
  if (job.plan.rounds && !judged) return {};
  if (!job.schedule.in_order && !job.plan.rounds) return groups.complete.First(batch);
  std::vector<uint64_t> chosen;
  for (const auto& [prompt_index, trajectory_uid] : groups.prompts.open()) {
    if (chosen.size() == batch) break;
    if (!groups.complete.Has(prompt_index)) return {};  // the batch waits for it
    chosen.push_back(prompt_index);
  }
  // A group with a smaller prompt index may be about to be made again.
  if (!job.plan.rounds && !chosen.empty() && groups.prompts.Next() < chosen.back()) return {};
  return chosen;
}

void AddGroupMetrics(const JobParts& job, std::map<std::string, double>& metrics) {
  const PromptGroups& groups = job.prompt_groups;
  if (groups.lost > 0) metrics["train/groups_replaced"] = static_cast<double>(groups.lost);
  if (job.spec().algorithm().dynamic_sampling()) {
    metrics["train/filtered_groups"] = static_cast<double>(groups.filtered);
    metrics["train/groups"] += static_cast<double>(groups.filtered);
  }
  if (!job.plan.many_versions) return;
  AddStaleness(job, metrics);
  metrics["buffer/complete_groups"] = static_cast<double>(groups.complete.size());
  metrics["buffer/open_groups"] = static_cast<double>(groups.prompts.open().size());
  metrics["buffer/stale_dropped_groups"] = static_cast<double>(groups.stale);
  metrics["buffer/stale_dropped_tokens"] = static_cast<double>(groups.stale_tokens);
  if (job.schedule.group_timeout != absl::InfiniteDuration()) {
    metrics["buffer/given_up_responses"] = static_cast<double>(groups.late.given_up());
    metrics["buffer/given_up_tokens"] = static_cast<double>(groups.late.given_up_tokens());
  }
  if (job.spec().algorithm().dynamic_sampling()) {
    metrics["buffer/filtered_groups"] = static_cast<double>(groups.filtered);
  }
  if (job.outdated.refreshes) job.outdated.refresh.AddMetrics(metrics);
}

}  // namespace baton::controller
