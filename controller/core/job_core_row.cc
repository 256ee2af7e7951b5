// JobCore: what is kept of it, and how it comes back.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/job_core.h"
#include "controller/core/mutation.h"

namespace baton::controller {

using Job = v1::Job;

JobCore::JobCore(store::v1::JobRow row,
                 const std::map<uint64_t, store::v1::TrajectoryRow>& trajectories, uint64_t epoch,
                 const JobCoreOptions& options)
    : options_(options),
      attempt_base_(Mutated(Mutation::kEpochNotInAttempts) ? 0 : FirstAttempt(epoch)),
      restored_(true),
      submitted_(TakeSubmitted(row.mutable_job())),
      graph_(submitted_->dataflow()),
      job_(row.job()),
      submit_order_(row.submit_order()),
      incarnation_(row.incarnation()),
      step_(row.job().step()),
      policy_version_(row.job().policy_version()),
      published_(row.published_version() == row.job().policy_version() &&
                 row.published_version() != 0),
      cursor_(row.cursor()),
      algorithm_(row.algorithm().begin(), row.algorithm().end()),
      saved_cursor_(row.saved_cursor()),
      saved_algorithm_(row.saved_algorithm().begin(), row.saved_algorithm().end()),
      next_serial_(row.next_serial()),
      update_metrics_(row.update_metrics().begin(), row.update_metrics().end()),
      evaluated_step_(row.evaluated_step()),
      saved_step_(row.saved_step()),
      stopping_as_(static_cast<Job::State>(row.stopping_as())),
      checkpoints_(row.checkpoints().begin(), row.checkpoints().end()),
      kept_(row.kept_steps().begin(), row.kept_steps().end()),
      rollout_pace_(options.pace) {
  roster_ = Roster(spec(), dataflow());
  MakeGroups();
  for (const store::v1::GroupRow& kept : row.groups()) {
    Group* group = GroupOf(kept.role());
    if (group == nullptr) continue;
    group->generation = kept.generation();
    group->sequence = kept.sequence();
    group->version = kept.version();
    if (!kept.has_command()) continue;
    Command command;
    command.kind = static_cast<TaskKind>(kept.command().kind());
    command.generation = kept.command().generation();
    command.sequence = kept.command().sequence();
    command.attempt = std::max<uint64_t>(kept.command().attempt(), kept.command().wide_attempt());
    group->command = command;
  }
  // A pausing job keeps its actor until it releases everyone.
  const bool releasing =
      state() == Job::STATE_STOPPING ||
      (state() == Job::STATE_PAUSING &&
       std::none_of(row.slots().begin(), row.slots().end(), [](const store::v1::SlotRow& slot) {
         return slot.role() == "actor" && slot.ready();
       }));
  roster_.Restore(row, releasing);
  for (const auto& [serial, trajectory] : trajectories) {
    // Rows written after the job's last row have larger serials than it knows.
    next_serial_ = std::max(next_serial_, serial + 1);
    const bool current = (trajectory.incarnation() == incarnation_ || MutatedStale()) &&
                         trajectory.step() == StepOf(trajectory.purpose()) && is_rl();
    const bool evaluated = trajectory.purpose() == v1::PURPOSE_EVAL && evaluated_step_ == step_;
    if (!current || evaluated) continue;
    if (Mutated(Mutation::kReadyLostAtRestart) && restored_rows_.empty() && serial % 2 == 0)
      continue;
    restored_rows_[trajectory.id()] = trajectory;
    restored_serials_[trajectory.id()] = serial;
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
  row.set_evaluated_step(saved.evaluated_step());
  row.set_saved_step(checkpoint.step());
  *row.add_checkpoints() = checkpoint;
  row.set_train_size(saved.train_size());
  return row;
}

store::v1::JobRow JobCore::Row() const {
  store::v1::JobRow row = BriefRow();
  row.mutable_job()->MergeFrom(*submitted_);
  row.mutable_checkpoints()->Assign(checkpoints_.begin(), checkpoints_.end());
  return row;
}

store::v1::JobRow JobCore::BriefRow() const {
  store::v1::JobRow row;
  *row.mutable_job() = job_;
  row.mutable_job()->set_step(step_);
  row.mutable_job()->set_policy_version(policy_version_);
  row.set_submit_order(submit_order_);
  row.set_incarnation(incarnation_);
  row.set_published_version(published_ ? policy_version_ : 0);
  row.set_cursor(cursor_);
  row.set_next_serial(next_serial_);
  for (const auto& [name, value] : algorithm_) (*row.mutable_algorithm())[name] = value;
  row.set_saved_cursor(saved_cursor_);
  for (const auto& [name, value] : saved_algorithm_) {
    (*row.mutable_saved_algorithm())[name] = value;
  }
  for (const Group& group : groups_) {
    store::v1::GroupRow* kept = row.add_groups();
    kept->set_role(group.role);
    kept->set_generation(group.generation);
    kept->set_sequence(group.sequence);
    kept->set_version(group.version);
    if (!group.command.has_value()) continue;
    kept->mutable_command()->set_kind(static_cast<int>(group.command->kind));
    kept->mutable_command()->set_generation(group.command->generation);
    kept->mutable_command()->set_sequence(group.command->sequence);
    kept->mutable_command()->set_wide_attempt(group.command->attempt);
  }
  for (const auto& [name, value] : update_metrics_) (*row.mutable_update_metrics())[name] = value;
  roster_.Keep(&row);
  row.set_evaluated_step(evaluated_step_);
  row.set_saved_step(saved_step_);
  row.set_stopping_as(stopping_as_);
  for (const store::v1::StepSerials& kept : kept_) *row.add_kept_steps() = kept;
  row.set_train_size(prompts_.size());
  return row;
}

void JobCore::RestoreTrajectory(TrajectoryInfo& trajectory) {
  auto it = restored_rows_.find(trajectory.id);
  if (it == restored_rows_.end()) return;
  // The row of another prompt (the data changed meanwhile) is not this trajectory's.
  const store::v1::TrajectoryRow& row = it->second;
  if (row.purpose() != trajectory.purpose || row.draw() != trajectory.draw ||
      row.sample() != trajectory.sample || row.prompt_id() != trajectory.prompt_id) {
    return;
  }
  const uint64_t attempt = trajectory.attempt;
  TrajectoryInfo kept =
      FromRow(row, restored_serials_.at(trajectory.id), graph_.Wanted(row.purpose()));
  if (!WhyStale(kept).empty() && !MutatedStale()) return;  // generated again
  trajectory = std::move(kept);
  trajectory.attempt = attempt;
  // A score of a response that was lost may still be under way.
  trajectory.restored = trajectory.losses == 0;
}

// Staleness is bounded by 0: what a batch consumes, or an evaluation measures, was sampled by
// exactly these weights.
std::string JobCore::WhyStale(const TrajectoryInfo& trajectory) const {
  if (!is_rl() ||
      (trajectory.incarnation == incarnation_ && trajectory.policy_version == policy_version_)) {
    return "";
  }
  return absl::StrCat(TrajectoryName(trajectory.id), " is of version ", trajectory.policy_version,
                      ", incarnation ", trajectory.incarnation, ", and step ", step_ + 1,
                      " follows version ", policy_version_, ", incarnation ", incarnation_);
}

bool JobCore::Restored(v1::Purpose purpose) const {
  return std::any_of(restored_rows_.begin(), restored_rows_.end(),
                     [&](const auto& row) { return row.second.purpose() == purpose; });
}

// Workers that came back before the step was restored told what they run; it stays with them.
void JobCore::AdoptRunning() {
  for (const Adoptable& running : std::exchange(adoptable_, {})) {
    Adopt(running);
    StopUnwanted(running.worker, {running.ref});
  }
}

void JobCore::Adopt(const Adoptable& running) {
  const auto& [worker, ref, version] = running;
  auto it = trajectories_.find(ref.subject);
  if (it == trajectories_.end() || ref.step != step_ || ref.incarnation != incarnation_) return;
  TrajectoryInfo& trajectory = it->second;
  if (ref.kind == TaskKind::kGenerate && trajectory.state == TrajectoryState::kPending) {
    // Its tokens are of the version that the worker held, and count as those of this one.
    if (roster_.hybrid() ? !published_ : version != policy_version_) return;
    if (trajectory.attempt != attempt_base_) return;  // this controller began it itself
    if (!rollouts_.Adopt(trajectory.id, worker, now_)) return;
    trajectory.attempt = ref.attempt;
    trajectory.state = TrajectoryState::kGenerating;
  }
  if (ref.kind != TaskKind::kScore || trajectory.state != TrajectoryState::kScoring) return;
  if (ref.part >= trajectory.tries.size() || !trajectory.tries[ref.part].asked) return;
  // What an earlier controller had scored may be another response than one that came since.
  if (!trajectory.restored || trajectory.tries[ref.part].attempt != attempt_base_) return;
  RolloutManager& manager = ManagerOf(graph_.role(ref.part));
  if (!manager.Adopt(WorkId(trajectory.id, ref.part), worker, now_)) return;
  trajectory.tries[ref.part].attempt = ref.attempt;
}

// Work that a worker still does for nobody.
void JobCore::StopUnwanted(const std::string& worker, const std::vector<TaskRef>& running) {
  for (const TaskRef& ref : running) {
    const bool work = ref.kind == TaskKind::kGenerate || ref.kind == TaskKind::kScore;
    if (work && !Wants(worker, ref)) {
      Do(StopTask{worker, ref, "it is not wanted any more"});
    }
  }
}

void JobCore::ReplayEarly(bool commands) {
  std::vector<TaskDone> kept;
  for (TaskDone& early : std::exchange(early_, {})) {
    if (IsGroupCommand(early.ref.kind) != commands) {
      kept.push_back(std::move(early));
    } else {
      On(early);
    }
  }
  early_.insert(early_.end(), kept.begin(), kept.end());
}

}  // namespace baton::controller
