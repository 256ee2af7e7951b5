#include "controller/core/loop/batch_flow.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "controller/core/loop/group_flow.h"
#include "controller/core/loop/life_changes.h"
#include "controller/core/loop/policy_update.h"
#include "controller/core/loop/results.h"
#include "controller/spec/settings/least_responses.h"

namespace baton::controller {
namespace {

// A final check, independent of earlier ones: no response that is too old is trained on.
absl::Status CheckStaleness(const std::vector<uint64_t>& prompt_indices, JobParts& job) {
  for (const uint64_t prompt_index : prompt_indices) {
    for (const TrajectoryInfo* member : job.scheduler.table().GroupMembers(prompt_index)) {
      if (!job.IsStale(*member)) continue;
      return absl::InternalError(absl::StrCat("not consumed: ", TrajectoryName(member->id),
                                              " is of version ", member->policy_version,
                                              ", too old for version ", job.versions.newest()));
    }
  }
  return absl::OkStatus();
}

bool SelectBatch(JobParts& job) {
  job.batch.restored.clear();  // a batch that was built, and that no update had begun with
  DropStaleGroups(job);
  std::vector<uint64_t> chosen = SampleGroups(job);
  if (chosen.size() < job.GroupsPerBatch()) return false;
  if (absl::Status stale = CheckStaleness(chosen, job); !stale.ok()) {
    Fail(stale, job);
    return false;
  }
  for (const uint64_t prompt_index : chosen) {
    job.prompt_groups.complete.Remove(prompt_index);
    job.scheduler.Select(job.scheduler.table().GroupMembers(prompt_index));
  }
  job.batch.selected = std::move(chosen);
  job.batch.scored = 0;
  return true;
}

void TakeOut(std::vector<uint64_t> prompt_indices, JobParts& job) {
  for (const uint64_t prompt_index : prompt_indices) {
    job.buffer.Take(job.scheduler.table().TakeGroup(prompt_index));
  }
  job.batch.taken = std::move(prompt_indices);
  const absl::Time now = job.out.now(), last = job.scheduler.generated_at();
  // While the trainer works, responses of later batches arrive too, so the last arrival says
  // nothing; the trainer waited until now.
  job.batch.times.generated = job.plan.rounds ? std::max(job.batch.times.began, last) : now;
  job.batch.times.scored = now;
}

void UseBatch(JobParts& job) {
  if (!job.commands.Any(TaskKind::kUpdate)) return BeginUpdate(job);
  // A restored update: a rank may have it, may have done it, or may never have seen it.
  job.Switch(Activity::kUpdate);
  for (const TaskDone& early : job.work.reports().TakeResults()) RouteResult(early, job);
  SendWaitingCommands(job.Commands());
}

}  // namespace

bool TakeBatch(JobParts& job) {
  if (job.replays()) return true;  // the responses are those of its row
  if (job.batch.selected.empty() && !SelectBatch(job)) return false;
  StepBatch& batch = job.batch;
  while (batch.scored < batch.selected.size() && job.IsWhole(batch.selected[batch.scored])) {
    ++batch.scored;
  }
  if (batch.scored < batch.selected.size()) return false;
  TakeOut(std::exchange(batch.selected, {}), job);
  return true;
}

bool TakeRestoredBatch(JobParts& job) {
  if (!job.HasRestoredBatch()) return false;
  for (const uint64_t prompt_index : job.batch.restored) {
    job.prompt_groups.complete.Remove(prompt_index);
  }
  job.prompt_groups.pace.NoteRestoredUpdate();
  TakeOut(std::exchange(job.batch.restored, {}), job);
  return true;
}

void RecallSelected(const JobParts& job, TrajectoryInfo& trajectory) {
  const ScoreGraph& graph = job.responses().graph();
  if (graph.at_selection() == 0 || trajectory.serial == 0) return;
  // Scores that were made when a batch selected the group count only for a batch whose update has
  // begun.
  const bool kept = job.commands.Any(TaskKind::kUpdate) &&
                    absl::c_binary_search(job.batch.restored, trajectory.prompt_index);
  if (kept) {
    trajectory.selected = true;
    const bool ready = (job.responses().Wanted(trajectory) & ~trajectory.scored) == 0;
    trajectory.state = ready ? TrajectoryState::kReady : TrajectoryState::kScoring;
    return;
  }
  for (uint32_t node = 0; node < trajectory.tries.size(); ++node) {
    if ((graph.at_selection() >> node & 1) != 0) trajectory.columns.erase(node);
  }
  trajectory.scored &= ~graph.at_selection();
}

bool LosesBatch(const PayloadLost& event, const JobParts& job) {
  const auto& taken = job.buffer.taken();
  return absl::c_any_of(event.trajectories, [&](const auto& lost) {
    const auto in_batch = taken.find(lost.first);
    if (in_batch != taken.end() && in_batch->second.serial == lost.second) return true;
    // After a restart the batch may not be taken yet.
    if (!job.commands.Any(TaskKind::kUpdate)) return false;
    const TrajectoryInfo* const found = job.scheduler.table().Find(lost.first);
    return found != nullptr && found->serial == lost.second && found->purpose != v1::PURPOSE_EVAL &&
           absl::c_linear_search(job.batch.restored, found->prompt_index);
  });
}

void BuildBatchOf(JobParts& job) {
  job.Switch(Activity::kBatch);
  if (job.replays()) {
    // Nothing is drawn, generated or scored: the runtime builds the batch from the row of the step.
    job.batch.times = {job.out.now(), job.out.now(), job.out.now()};
    return job.buffer.Replay(job.spec(), job.out);
  }
  const int64_t step = job.out.step();
  // A job that generates nothing is evaluated by the worker that trains it.
  const bool judged =
      !job.is_rl() && job.milestones.EvaluatesAfter(step + 1, step, job.data.validates());
  // An update that a restart interrupted: its batch has a row.
  const bool has_row = job.is_rl() && job.commands.Any(TaskKind::kUpdate);
  job.buffer.Build(job.buffer.taken(), job.spec(), LeastResponses(job.spec(), job.dataflow()),
                   judged ? job.data.ValSize(job.spec().data()) : 0,
                   has_row ? Recorded::kCompare : Recorded::kNot, job.out);
}

void OnBatchBuilt(const BatchBuilt& event, JobParts& job) {
  // The job went back meanwhile, or a payload of the batch was lost: another batch will be built.
  if (event.incarnation != job.out.incarnation() || event.step != job.out.step() + 1 ||
      !job.doing.Is(Activity::kBatch)) {
    return;
  }
  if (!event.status.ok()) return Fail(event.status, job);
  job.buffer.batch().Built(event, job.out.now());
  // The responses of a replay. From here on the step is like any other.
  for (const TrajectoryInfo& trajectory : event.replayed) {
    job.buffer.Take({{trajectory.id, trajectory}});
  }
  UseBatch(job);
}

absl::Status CheckBatchDeadline(const JobParts& job) {
  const absl::Duration limit = job.options.setup_deadline;
  if (!job.doing.Is(Activity::kBatch) || job.out.now() - job.doing.since() <= limit) {
    return absl::OkStatus();
  }
  return absl::DeadlineExceededError(
      absl::StrCat("the batch of step ", job.out.step() + 1, " was not built within ",
                   absl::FormatDuration(limit), "; check the disk of the data root"));
}

}  // namespace baton::controller
