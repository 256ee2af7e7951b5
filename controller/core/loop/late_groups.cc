#include "controller/core/loop/late_groups.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "controller/core/loop/job_parts.h"
#include "controller/spec/role_names.h"
#include "controller/spec/schedule.h"
#include "sdk/base/mutant.h"

namespace baton::controller {
namespace {

constexpr absl::Duration kLongestLook = absl::Seconds(10);  // between two looks at stragglers

}  // namespace

std::optional<absl::Time> LateGroups::End(uint64_t draw) {
  const auto found = begun_.find(draw);
  if (found == begun_.end()) return std::nullopt;
  const absl::Time begun = found->second;
  begun_.erase(found);
  return begun;
}

absl::Time LateGroups::BegunAt(uint64_t draw) const {
  const auto begun = begun_.find(draw);
  return begun == begun_.end() ? stood_ : begun->second;
}

// While the job has no rollouts or reads its data, is paused, or its machine is suspended, no
// response can come; that time counts for no group.
void LateGroups::SkipOutage(absl::Time now) {
  const absl::Duration gap = now - std::exchange(looked_, now);
  if (gap <= kLongestLook || gap == absl::InfiniteDuration()) return;
  for (auto& [draw, begun] : begun_) begun += gap;
  stood_ += gap;
}

std::vector<uint64_t> LateGroups::Due(const JobParts& job) {
  const absl::Duration timeout = ScheduleOf(job.spec()).group_timeout;
  const bool generates = absl::c_any_of(job.roster().slots(), [](const RoleSlot& slot) {
    return slot.role == roles::kRollout && slot.ready();
  });
  const bool knows_prompts = job.data.loaded() || Mutant("late-before-data");
  if (timeout == absl::InfiniteDuration() || !generates || !knows_prompts) return {};
  SkipOutage(job.out.now());
  const AsyncGroups& groups = job.async.groups;
  // What an update has begun with is made again as it was.
  const std::set<uint64_t> in_batch = job.async.batch.Draws();
  std::vector<uint64_t> late;
  for (const auto& [draw, birth] : groups.draws().open()) {
    const bool waits = !groups.complete().Has(draw) && in_batch.count(draw) == 0;
    if (waits && job.out.now() - BegunAt(draw) >= timeout) late.push_back(draw);
  }
  return late;
}

bool LateGroups::GiveUp(uint64_t draw, JobParts& job) {
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
    job.async.groups.lengths().Note(straggler->prompt_id, straggler->tokens);
    if (!Mutant("given-up-comes-back")) job.async.groups.draws().GiveUp(draw, straggler->sample);
  }
  job.scheduler.DropAll(stragglers, "its group goes on without it", job.Work());
  job.out.Do(PutJob{});
  // A score over the group has waited for them.
  for (TrajectoryInfo* member : others) {
    job.scheduler.scores().EnqueueNext(*member, job.scheduler.Work());
  }
  return true;
}

void LateGroups::AddMetrics(const JobParts& job, std::map<std::string, double>& metrics) const {
  if (ScheduleOf(job.spec()).group_timeout == absl::InfiniteDuration()) return;
  metrics["buffer/given_up_responses"] = static_cast<double>(given_up_);
  metrics["buffer/given_up_tokens"] = static_cast<double>(given_up_tokens_);
}

void LateGroups::Explain(const JobParts& job, WaitList& waits) const {
  const Schedule schedule = ScheduleOf(job.spec());
  if (schedule.group_timeout == absl::InfiniteDuration()) return;
  uint64_t late = 0;
  absl::Time since = absl::InfiniteFuture();
  const AsyncGroups& groups = job.async.groups;
  for (const auto& [draw, birth] : groups.draws().open()) {
    const absl::Time due = BegunAt(draw) + schedule.group_timeout;
    if (due > job.out.now() || groups.complete().Has(draw) || groups.IsWhole(draw, job)) continue;
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

}  // namespace baton::controller
