#include "controller/core/loop/restore_work.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "controller/core/loop/batch_flow.h"
#include "controller/core/loop/evaluation.h"
#include "controller/core/loop/group_flow.h"
#include "controller/core/loop/policy_update.h"
#include "controller/core/loop/worker_changes.h"

namespace baton::controller {
namespace {

void RestoreGroup(uint64_t prompt_index, uint64_t trajectory_uid, JobParts& job) {
  std::vector<TrajectoryInfo> made = job.scheduler.admission().MakeGroup(
      v1::PURPOSE_TRAIN, prompt_index, job.data.PromptOf(prompt_index), trajectory_uid,
      job.scheduler.table(), job.Work());
  const std::set<uint32_t> given_up = job.prompt_groups.prompts.given_up(prompt_index);
  made.erase(std::remove_if(made.begin(), made.end(),
                            [&](const TrajectoryInfo& trajectory) {
                              return trajectory.purpose == v1::PURPOSE_TRAIN &&
                                     given_up.count(trajectory.sample) > 0;
                            }),
             made.end());
  for (TrajectoryInfo& trajectory : made) RecallSelected(job, trajectory);
  job.scheduler.AddGroup(std::move(made));
}

}  // namespace

bool IsOfOpenWork(const store::v1::TrajectoryRow& row, const JobParts& job) {
  if (row.purpose() == v1::PURPOSE_EVAL) {
    return job.evaluation.active() && job.evaluation.Has(row.trajectory_uid());
  }
  return job.prompt_groups.prompts.Has(row.prompt_index(), row.trajectory_uid(),
                                       job.responses().PerPrompt());
}

void RecallGivenUp(const store::v1::TrajectoryRow& row, JobParts& job) {
  const bool of_step = row.step() == job.out.step() + 1 &&
                       row.incarnation() == job.out.incarnation() &&
                       row.purpose() != v1::PURPOSE_EVAL;
  if (!of_step) return;
  const TrajectoryInfo given_up = FromRow(row, /*serial=*/0, /*wanted=*/0);
  job.scheduler.scores().errors().Recall(given_up);
  job.scheduler.table().CountTaken();
  job.prompt_groups.given_up.Add(given_up);
}

void RestoreWork(JobParts& job) {
  job.work.Begin();
  const absl::Time now = job.out.now();
  job.batch.times = {now, now, now};
  job.prompt_groups.late.Restore(now);
  for (const auto& [prompt_index, trajectory_uid] : job.prompt_groups.prompts.open()) {
    RestoreGroup(prompt_index, trajectory_uid, job);
  }
  RestoreEvaluation(job);
  job.buffer.found().Clear();
  BeginKeptStep(job);
  JudgeRestoredGroups(job);
  // Before tasks are assigned, so that a task that a worker still runs is not begun a second time.
  AdoptRunning(job);
}

}  // namespace baton::controller
