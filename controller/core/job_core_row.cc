// JobCore: what is kept of it, and how it comes back.
#include <utility>

#include "controller/core/job_core.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

using Job = v1::Job;

JobCore::JobCore(store::v1::JobRow row,
                 const std::map<uint64_t, store::v1::TrajectoryRow>& trajectories, uint64_t epoch,
                 const JobCoreOptions& options)
    : options_(options),
      restored_(true),
      submitted_(TakeSubmitted(row.mutable_job())),
      out_(row, Mutant("epoch-not-in-attempts") ? 0 : FirstAttempt(epoch)),
      scheduler_(submitted_, options),
      groups_(spec(), dataflow()),
      pools_(spec(), dataflow()),
      milestones_(submitted_, row.job().total_steps()),
      slots_(spec(), dataflow(), options),
      job_(row.job()),
      submit_order_(row.submit_order()),
      stopping_as_(static_cast<Job::State>(row.stopping_as())) {
  milestones_.Restore(row);
  versions_.Restore(row);
  buffer_.Restore(row);
  scheduler_.draws().RollBack(row.cursor());
  scheduler_.births().Restore(row);
  groups_.Restore(row);
  slots_.Restore(row);
  for (const auto& [serial, trajectory] : trajectories) {
    const bool current = (trajectory.incarnation() == out_.incarnation() ||
                          (Mutant("stale-restored") || Mutant("stale-consumed"))) &&
                         trajectory.step() == StepOf(trajectory.purpose(), out_.step()) && is_rl();
    const bool evaluated =
        trajectory.purpose() == v1::PURPOSE_EVAL && milestones_.evaluated_step() == out_.step();
    buffer_.Found(serial, trajectory, current && !evaluated);
  }
}

store::v1::JobRow GoOnFrom(const store::v1::JobRow& saved, const v1::Job& as,
                           const v1::Checkpoint& checkpoint, int64_t submit_order) {
  store::v1::JobRow row;
  Job& job = *row.mutable_job();
  job = as;
  *job.mutable_spec() = saved.job().spec();
  *job.mutable_effective_spec() = saved.job().effective_spec();
  *job.mutable_dataflow() = saved.job().dataflow();
  job.set_state(Job::STATE_QUEUED);
  job.set_step(checkpoint.step());
  job.set_total_steps(saved.job().total_steps());
  job.set_policy_version(saved.job().policy_version());
  *job.mutable_metrics() = saved.job().metrics();
  row.set_submit_order(submit_order);
  row.set_incarnation(saved.incarnation() + 1);
  row.set_cursor(saved.cursor());
  *row.mutable_algorithm() = saved.algorithm();
  row.set_saved_cursor(saved.cursor());
  *row.mutable_saved_algorithm() = saved.algorithm();
  for (const store::v1::GroupRow& group : saved.groups()) {
    *row.add_groups() = group;
    row.mutable_groups()->rbegin()->clear_command();
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

store::v1::JobRow JobCore::Row() const {
  store::v1::JobRow row = BriefRow();
  row.mutable_job()->MergeFrom(*submitted_);
  row.mutable_checkpoints()->Assign(checkpoints().begin(), checkpoints().end());
  return row;
}

store::v1::JobRow JobCore::BriefRow() const {
  store::v1::JobRow row;
  *row.mutable_job() = Durable();
  row.set_submit_order(submit_order_);
  out_.Save(&row);
  milestones_.Save(&row);
  versions_.Save(&row);
  buffer_.Save(&row);
  row.set_cursor(scheduler_.draws().cursor());
  scheduler_.births().Save(&row);
  groups_.Save(&row);
  slots_.Save(&row);
  row.set_stopping_as(stopping_as_);
  row.set_train_size(data_.train_size());
  return row;
}

// Workers that came back before the step was restored told what they run; it stays with them.
void JobCore::AdoptRunning() {
  for (const EarlyReports::Running& running : early_.TakeTasks()) {
    scheduler_.Adopt(running.worker, running.ref, running.version, roster().hybrid(), Work());
    StopUnwanted(running.worker, {running.ref});
  }
}

// Work that a worker still does for nobody.
void JobCore::StopUnwanted(const std::string& worker, const std::vector<TaskRef>& running) {
  for (const TaskRef& ref : running) {
    if (IsTrajectoryTask(ref.kind) && !Wants(worker, ref)) {
      out_.Do(StopTask{worker, ref, "it is not wanted any more"});
    }
  }
}

}  // namespace baton::controller
