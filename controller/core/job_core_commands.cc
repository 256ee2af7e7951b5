// JobCore: commands of the actor, and the deadlines of everything.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/job_core.h"
#include "controller/core/mutation.h"

namespace baton::controller {

void JobCore::StartUpdate() {
  if (batch_size_ == 0) return FinishStep({}, /*updated=*/false);
  IssueCommand(TaskKind::kUpdate);
}

void JobCore::IssueCommand(TaskKind kind) {
  Command command;
  command.kind = kind;
  command.generation = generation_;
  command.sequence = sequence_ += Mutated(Mutation::kSkippedSequence) ? 2 : 1;
  command.attempt = attempt_base_;
  command_ = command;
  const bool working = phase_ == Phase::kGenerate || phase_ == Phase::kEvaluate;
  if (!working) {  // a version published again does not interrupt the work with it
    SetPhase(kind == TaskKind::kUpdate    ? Phase::kUpdate
             : kind == TaskKind::kPublish ? Phase::kPublish
                                          : Phase::kSave);
  }
  if (kind == TaskKind::kPublish) publish_since_ = now_;
  Do(PutJob{});
  SendCommand();
}

void JobCore::SendCommand() {
  auto actor = std::find_if(slots_.begin(), slots_.end(),
                            [](const Slot& slot) { return slot.role == "actor"; });
  if (actor->state != SlotState::kReady || !actor->present) return;
  command_->since = now_;
  StartTask task;
  task.worker = actor->worker;
  task.ref = Ref(command_->kind, command_->sequence, command_->attempt);
  task.args.role = actor->role;
  task.args.generation = command_->generation;
  task.args.sequence = command_->sequence;
  task.args.deadline = options_.command_deadline;
  task.args.policy_version = policy_version_ + (command_->kind == TaskKind::kUpdate ? 1 : 0);
  task.args.batch_size = batch_size_;
  Do(std::move(task));
}

void JobCore::OnCommand(const TaskDone& event) {
  const TaskKind kind = command_->kind;
  if (absl::IsResourceExhausted(event.status) && kind != TaskKind::kUpdate) {
    return WaitForRoom(kind, event);
  }
  no_room_.reset();
  if (!event.status.ok()) {
    return Fail(absl::Status(event.status.code(),
                             absl::StrCat(MethodName(kind), " failed on worker ", event.worker,
                                          ": ", event.status.message())));
  }
  command_.reset();
  switch (kind) {
    case TaskKind::kUpdate:
      return FinishStep(event.output.metrics, /*updated=*/true);
    case TaskKind::kPublish:
      published_ = true;
      if (phase_ == Phase::kPublish) SetPhase(Phase::kNone);
      Do(PutJob{});
      if (std::exchange(batch_built_, false)) return StartUpdate();
      return Advance();
    case TaskKind::kSaveCheckpoint:
      committing_checkpoint_ = true;
      committing_since_ = now_;
      if (Mutated(Mutation::kCompleteBeforeRename)) checkpoints_.emplace_back().set_step(step_);
      Do(CommitCheckpoint{step_, incarnation_, Row()});
      return Do(PutJob{});
    default:
      return;
  }
}

// Nothing was written and nothing is lost: somebody makes room, and it goes on.
void JobCore::WaitForRoom(TaskKind kind, const TaskDone& event) {
  command_.reset();
  const std::string message(event.status.message());
  if (!no_room_.has_value()) {
    EmitWarning(absl::StrCat("worker ", event.worker, " has no room to ", MethodName(kind), ": ",
                             message, "; it is tried again until there is"));
  }
  const absl::Time since = no_room_.has_value() ? no_room_->since : now_;
  no_room_ = NoRoom{kind, message, since, now_ + options_.no_room_retry};
  const bool working = phase_ == Phase::kGenerate || phase_ == Phase::kEvaluate;
  if (!working) SetPhase(Phase::kNone);
  Do(PutJob{});
}

// Of what the controller itself has to do.
void JobCore::CheckOwnDeadlines() {
  const std::string limit = absl::FormatDuration(options_.setup_deadline);
  if (data_loading_ && now_ - data_since_ > options_.setup_deadline) {
    data_loading_ = false;
    Fail(absl::DeadlineExceededError(absl::StrCat("the data files were not read within ", limit,
                                                  "; check the disk of the data root")));
  } else if (phase_ == Phase::kBatch && now_ - phase_since_ > options_.setup_deadline) {
    Fail(absl::DeadlineExceededError(absl::StrCat("the batch of step ", step_ + 1,
                                                  " was not put together within ", limit,
                                                  "; check the disk of the data root")));
  } else if (committing_checkpoint_ && now_ - committing_since_ > options_.setup_deadline) {
    committing_checkpoint_ = false;
    Fail(absl::DeadlineExceededError(absl::StrCat("the checkpoint of step ", step_,
                                                  " was not completed within ", limit,
                                                  "; check the disk of the data root")));
  }
}

void JobCore::On(const TimeLost& event) {
  const auto later = [&](absl::Time& since) {
    if (since != absl::Time() && since != absl::InfinitePast()) {
      since = std::min(now_, since + event.duration);
    }
  };
  for (Slot& slot : slots_) later(slot.since);
  for (absl::Time* since : {&data_since_, &phase_since_, &committing_since_, &releasing_since_}) {
    later(*since);
  }
  if (command_.has_value()) later(command_->since);
  rollouts_.Delay(event.duration, now_);
  rewards_.Delay(event.duration, now_);
}

void JobCore::CheckTaskDeadlines() {
  const std::vector<std::string> silent = rollouts_.SilentSince(now_ - options_.generate_stall);
  for (uint64_t id : rollouts_.StalledSince(now_ - options_.generate_stall)) {
    TrajectoryInfo& trajectory = trajectories_.at(id);
    const std::string worker = rollouts_.running().at(id).worker;
    Do(StopTask{worker, Ref(TaskKind::kGenerate, id, trajectory.attempt), "no progress"});
    rollouts_.Finish(id);
    EmitWarning(absl::StrCat(TrajectoryName(id), " made no progress on worker ", worker, " for ",
                             absl::FormatDuration(options_.generate_stall), "; it moves"));
    Retry(trajectory, absl::DeadlineExceededError("no progress"), rollouts_, worker);
    if (trajectory.failures >= options_.max_attempts) {
      return Fail(absl::DeadlineExceededError(
          absl::StrCat(TrajectoryName(id), " made no progress on ", options_.max_attempts,
                       " tries; the last on worker ", worker)));
    }
  }
  for (const std::string& worker : silent) {
    Evict(*SlotOf(worker),
          absl::StrCat("it answered nothing for ", absl::FormatDuration(options_.generate_stall)));
  }
  for (uint64_t id : rewards_.StalledSince(now_ - options_.score_deadline)) {
    TrajectoryInfo& trajectory = trajectories_.at(id);
    const std::string worker = rewards_.running().at(id).worker;
    Do(StopTask{worker, Ref(TaskKind::kScore, id, trajectory.attempt, trajectory.scored),
                "too slow"});
    TaskDone late;
    late.worker = worker;
    late.ref = Ref(TaskKind::kScore, id, trajectory.attempt, trajectory.scored);
    late.status = absl::DeadlineExceededError(
        absl::StrCat("no score within ", absl::FormatDuration(options_.score_deadline)));
    OnScored(late);
  }
  if (command_.has_value() && command_->since != absl::Time() &&
      now_ - command_->since > options_.command_deadline) {
    for (Slot& slot : slots_) {
      if (slot.role != "actor" || slot.state == SlotState::kEmpty) continue;
      Do(StopTask{slot.worker, Ref(command_->kind, command_->sequence, command_->attempt),
                  "no answer in time"});
      return Evict(slot, absl::StrCat("no answer to ", MethodName(command_->kind), " within ",
                                      absl::FormatDuration(options_.command_deadline)));
    }
  }
  Dispatch();
}

}  // namespace baton::controller
