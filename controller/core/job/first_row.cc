#include "controller/core/job/first_row.h"

#include <utility>

namespace baton::controller {

std::shared_ptr<const v1::Job> TakeSubmitted(v1::Job* job) {
  // Swapped and not copied: a graph may have megabytes, and every snapshot of the job shares it.
  auto out = std::make_shared<v1::Job>();
  if (job->has_spec()) out->mutable_spec()->Swap(job->mutable_spec());
  if (job->has_effective_spec()) out->mutable_effective_spec()->Swap(job->mutable_effective_spec());
  if (job->has_dataflow()) out->mutable_dataflow()->Swap(job->mutable_dataflow());
  job->clear_spec();
  job->clear_effective_spec();
  job->clear_dataflow();
  return out;
}

store::v1::JobRow GoOnFrom(const store::v1::JobRow& saved, const v1::Job& as,
                           const v1::Checkpoint& checkpoint, int64_t submit_order) {
  store::v1::JobRow row;
  v1::Job& job = *row.mutable_job();
  job = as;
  *job.mutable_spec() = saved.job().spec();
  *job.mutable_effective_spec() = saved.job().effective_spec();
  *job.mutable_dataflow() = saved.job().dataflow();
  job.set_state(v1::Job::STATE_QUEUED);
  job.set_step(checkpoint.step());
  job.set_total_steps(saved.job().total_steps());
  job.set_policy_version(saved.job().policy_version());
  *job.mutable_metrics() = saved.job().metrics();
  row.set_submit_order(submit_order);
  // The steps after the checkpoint are another branch: nothing of the first branch may count here.
  row.set_incarnation(saved.incarnation() + 1);
  *row.mutable_algorithm() = saved.algorithm();
  *row.mutable_saved_algorithm() = saved.algorithm();
  *row.mutable_spent() = saved.spent();
  *row.mutable_saved_spent() = saved.spent();
  for (const store::v1::GroupRow& group : saved.groups()) {
    *row.add_groups() = group;
    row.mutable_groups()->rbegin()->clear_command();  // it was the saved job's
  }
  for (const store::v1::SlotRow& slot : saved.slots()) row.add_slots()->set_role(slot.role());
  *row.mutable_learning() = saved.learning();
  *row.mutable_saved_learning() = saved.learning();
  row.set_worked_seconds(saved.worked_seconds());
  row.set_evaluated_step(saved.evaluated_step());
  row.set_saved_step(checkpoint.step());
  *row.mutable_versions() = saved.versions();
  row.set_saved_version(saved.job().policy_version());
  *row.add_checkpoints() = checkpoint;
  row.set_train_size(saved.train_size());
  return row;
}

}  // namespace baton::controller
