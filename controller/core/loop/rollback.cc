#include "controller/core/loop/rollback.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "controller/spec/dataflow/roles.h"

namespace baton::controller {

void DropGroup(uint64_t prompt_index, const std::string& reason, JobParts& job) {
  job.scheduler.DropAll(job.scheduler.table().GroupMembers(prompt_index), reason, job.Work());
  job.prompt_groups.complete.Remove(prompt_index);
  job.prompt_groups.late.End(prompt_index);
}

void ReleaseBatch(const std::string& reason, JobParts& job) {
  for (const uint64_t prompt_index : job.batch.selected) {
    job.scheduler.Deselect(job.scheduler.table().GroupMembers(prompt_index), reason, job.Work());
  }
  job.prompt_groups.complete.AddFirst(job.batch.selected);
  job.batch.selected.clear();
}

void GiveBatchBack(const std::string& reason, JobParts& job) {
  for (auto& [id, trajectory] : job.buffer.GiveBack()) {
    job.scheduler.table().Add(std::move(trajectory));
    job.scheduler.table().CountReady();
  }
  // For a restored batch that was not taken yet, the scores made when it selected its groups are
  // dropped too.
  StepBatch& batch = job.batch;
  batch.selected.insert(batch.selected.end(), batch.taken.begin(), batch.taken.end());
  batch.taken.clear();
  for (const uint64_t prompt_index : std::exchange(batch.restored, {})) {
    if (job.prompt_groups.complete.Has(prompt_index)) batch.selected.push_back(prompt_index);
  }
  std::sort(batch.selected.begin(), batch.selected.end());
  ReleaseBatch(reason, job);
}

void DropEvaluation(const std::string& reason, JobParts& job) {
  std::vector<TrajectoryInfo*> members;
  for (const auto& [id, trajectory] : job.scheduler.table().all()) {
    if (trajectory.purpose == v1::PURPOSE_EVAL) members.push_back(job.scheduler.table().Find(id));
  }
  job.scheduler.DropAll(members, reason, job.Work());
  job.buffer.DropFound(v1::PURPOSE_EVAL, job.out);
  job.evaluation.End();
  job.out.Do(PutJob{});
}

void CloseWork(const std::string& reason, JobParts& job) {
  job.scheduler.Clear(reason, job.Work());
  if (job.evaluation.active()) job.buffer.DropEvaluation(job.evaluation.pin().step, job.out);
  job.evaluation.End();
  job.prompt_groups.CloseAll();
  job.batch.Clear();
  job.work.reports().Drop(reason, job.out);
}

int64_t RollBack(JobParts& job) {
  const std::string reason = "the trainer restarts from its checkpoint";
  // Tasks and commands name the step, so they are stopped before the step changes.
  if (job.plan.keeps_groups) {
    GiveBatchBack(reason, job);
    const bool undone = job.evaluation.pin().step > job.milestones.rollback_step();
    if (job.evaluation.active() && undone) DropEvaluation(reason, job);
  } else {
    CloseWork(reason, job);
  }
  job.commands.Stop(reason, job.groups, job.roster(), job.out);
  const int64_t lost_steps = job.out.step() - job.milestones.rollback_step();
  job.out.RollBack(job.milestones.rollback_step());
  job.commands.DropAll(job.out);
  job.reports.metrics.clear();
  job.save.End();
  job.commands.room().End();
  job.prompt_groups.lost = job.prompt_groups.filtered = 0;
  job.prompt_groups.given_up = {};
  job.prompt_groups.prompts.RollBack();
  job.buffer.RollBack(job.scheduler.table().all(), job.plan.keeps_groups,
                      job.milestones.RollBack().algorithm, KeepsAllExperience(job.spec()), job.out);
  // Meanwhile rollouts go on with the weights that they have, if responses of these may be learned
  // from.
  if (!job.plan.many_versions) job.versions.Unpublish();
  return lost_steps;
}

}  // namespace baton::controller
