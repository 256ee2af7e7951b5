// JobCore: commands of the groups that train, and the deadlines of everything.
#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "controller/core/job_core.h"
#include "controller/core/metric_names.h"
#include "controller/core/mutation.h"

namespace baton::controller {

bool JobCore::Commanded() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](const Group& group) { return group.command.has_value(); });
}

bool JobCore::Commanded(TaskKind kind) const {
  return std::any_of(groups_.begin(), groups_.end(), [&](const Group& group) {
    return group.command.has_value() && group.command->kind == kind;
  });
}

void JobCore::DropCommands() {
  for (Group& group : groups_) DropCommand(group);
}

// Whoever still works on a command need not: its result is wanted by nobody.
void JobCore::StopCommands(const std::string& reason) {
  for (const Group& group : groups_) {
    if (!group.command.has_value()) continue;
    for (const Slot& slot : roster_.slots()) {
      const bool works = slot.role == group.role && slot.state == SlotState::kReady &&
                         group.command->answers.count(slot.rank) == 0;
      if (works) Do(StopTask{slot.worker, RefOf(group), reason});
    }
  }
}

// Whoever has answered it need not answer again.
void JobCore::DropCommand(Group& group) {
  if (!group.command.has_value()) return;
  for (const auto& [rank, answer] : group.command->answers) {
    Do(AckResult{answer.worker, answer.ref});
  }
  group.command.reset();
}

// Every role that has an update node in this step, at once.
void JobCore::StartUpdate() {
  update_metrics_.clear();
  if (batch_size_ == 0) return FinishStep({}, /*updated=*/false);
  const bool warms_up = step_ < spec().algorithm().critic_warmup();
  for (Group& group : groups_) {
    if (!group.trains || (warms_up && group.role == "actor")) continue;
    IssueCommand(TaskKind::kUpdate, group);
  }
}

void JobCore::OnUpdated(Group& group, Metrics metrics) {
  if (group.role != "actor") ++group.version;  // the actor's grows when the step is done
  dropped_names_ += DropSurplus(job_.metrics(), &metrics);
  for (const auto& [name, value] : metrics) update_metrics_[name] = value;
  update_metrics_["timing_s/update_" + group.role] = Since(phase_since_);
  if (Commanded()) return Do(PutJob{});
  const bool updated = step_ >= spec().algorithm().critic_warmup();
  FinishStep(std::exchange(update_metrics_, {}), updated);
}

// A checkpoint has a part of every role that trains.
void JobCore::IssueSave() {
  for (Group& group : groups_) {
    if (group.trains) IssueCommand(TaskKind::kSaveCheckpoint, group);
  }
}

void JobCore::IssueCommand(TaskKind kind, Group& group) {
  Command command;
  command.kind = kind;
  command.generation = group.generation;
  command.sequence = group.sequence += Mutated(Mutation::kSkippedSequence) ? 2 : 1;
  command.attempt = std::max(group.next_attempt, attempt_base_);
  command.issued = now_;
  group.next_attempt = 0;
  group.command = command;
  const bool working = phase_ == Phase::kGenerate || phase_ == Phase::kEvaluate;
  if (!working) {  // a version published again does not interrupt the work with it
    SetPhase(kind == TaskKind::kUpdate ? Phase::kUpdate
             : kind == HandOver()      ? Phase::kPublish
                                       : Phase::kSave);
  }
  if (kind == HandOver()) publish_since_ = now_;
  Do(PutJob{});
  for (const Slot& slot : roster_.slots()) {
    if (slot.role == group.role) SendCommand(group, slot);
  }
}

void JobCore::SendCommand(Group& group, const Slot& slot) {
  if (!slot.ready() || !MayCommand(group)) return;
  Command& command = *group.command;
  command.since = now_;
  command.sent.insert(slot.rank);
  StartTask task;
  task.worker = slot.worker;
  task.ref = RefOf(group);
  task.args.role = slot.role;
  task.args.rank = slot.rank;
  task.args.generation = command.generation;
  task.args.sequence = command.sequence;
  task.args.deadline = options_.command_deadline;
  task.args.policy_version = VersionOf(group) + (command.kind == TaskKind::kUpdate ? 1 : 0);
  task.args.batch_size = batch_size_;
  Do(std::move(task));
}

// A rank has answered. The last one's answer is the group's, and all are acknowledged with it: so a
// controller that restarts before hears them again.
void JobCore::OnCommand(const TaskDone& event) {
  Group& group = groups_[event.ref.part];
  const Slot& slot = *roster_.Find(event.worker, group.role);
  const TaskKind kind = group.command->kind;
  group.command->answers[slot.rank] = event;
  // Memory, unlike a disk, is not made room on by somebody else.
  const bool waits = kind == TaskKind::kPublish || kind == TaskKind::kSaveCheckpoint;
  if (absl::IsResourceExhausted(event.status) && waits) {
    return WaitForRoom(kind, event);
  }
  const bool alone = kind == TaskKind::kToGeneration && absl::IsResourceExhausted(event.status) &&
                     group.ranks > 1;  // the others hold what it could not gather
  if (alone || Breaks(group, event.status)) return BreakGroup(group, event);
  if (!event.status.ok()) {
    no_room_.reset();
    return Fail(absl::Status(event.status.code(),
                             absl::StrCat(MethodName(kind), " failed on worker ", event.worker,
                                          ": ", event.status.message())));
  }
  if (group.command->answers.size() < group.ranks || group.broken.has_value()) return;
  no_room_.reset();
  if (kind == TaskKind::kUpdate && step_ + 1 > group.broke_at) group.failures = 0;
  const Metrics metrics = group.command->answers.begin()->second.output.metrics;  // of rank 0
  DropCommand(group);
  if (!roster_.shared().empty()) SendCommands();
  switch (kind) {
    case TaskKind::kUpdate:
      return OnUpdated(group, metrics);
    case TaskKind::kPublish:
      published_ = true;
      if (phase_ == Phase::kPublish) SetPhase(Phase::kNone);
      Do(PutJob{});
      if (std::exchange(batch_built_, false)) return StartUpdate();
      return Advance();
    case TaskKind::kToGeneration:
      return OnHandedOver();
    case TaskKind::kSaveCheckpoint:
      if (Commanded()) return Do(PutJob{});
      committing_checkpoint_ = true;
      committing_since_ = now_;
      if (Mutated(Mutation::kCompleteBeforeRename)) checkpoints_.emplace_back().set_step(step_);
      Do(CommitCheckpoint{step_, incarnation_, Row()});
      std::get<CommitCheckpoint>(effects_.back()).row.clear_checkpoints();  // it stands alone
      return Do(PutJob{});
    default:
      return;
  }
}

// Nothing was written and nothing is lost: somebody makes room, and it goes on.
void JobCore::WaitForRoom(TaskKind kind, const TaskDone& event) {
  // All ranks try again together, and under the same number: some may never have heard of it.
  for (Group& group : groups_) {
    if (!group.command.has_value()) continue;
    group.sequence = group.command->sequence - 1;
    group.next_attempt = NextAttempt(group.command->attempt);
  }
  DropCommands();
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
  for (Slot& slot : roster_.slots()) later(slot.since);
  for (absl::Time* since : {&data_since_, &phase_since_, &committing_since_, &releasing_since_}) {
    later(*since);
  }
  for (Group& group : groups_) {
    if (group.command.has_value()) later(group.command->since);
    if (group.broken.has_value()) later(group.broken->since);
    later(group.forming_since);
  }
  rollouts_.Delay(event.duration, now_);
  for (auto& [role, scorer] : scorers_) scorer.manager.Delay(event.duration, now_);
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
    RetryGenerate(trajectory, absl::DeadlineExceededError("no progress"), worker);
    if (trajectory.failures >= options_.max_attempts) {
      return Fail(absl::DeadlineExceededError(
          absl::StrCat(TrajectoryName(id), " made no progress on ", options_.max_attempts,
                       " tries; the last on worker ", worker)));
    }
  }
  for (const std::string& worker : silent) {
    Evict(worker,
          absl::StrCat("it answered nothing for ", absl::FormatDuration(options_.generate_stall)));
  }
  CheckScoreDeadlines();
  CheckCommandDeadlines();
  Dispatch();
}

void JobCore::CheckScoreDeadlines() {
  for (auto& [role, scorer] : scorers_) {
    for (uint64_t work : scorer.manager.StalledSince(now_ - options_.score_deadline)) {
      const auto running = scorer.manager.running().find(work);
      if (running == scorer.manager.running().end()) continue;  // the last one ended the job
      TaskDone late;
      late.worker = running->second.worker;
      late.ref = RefOfWork(role, work);
      late.status = absl::DeadlineExceededError(
          absl::StrCat("no score within ", absl::FormatDuration(options_.score_deadline)));
      Do(StopTask{late.worker, late.ref, "too slow"});
      OnScored(late, /*late=*/true);
    }
  }
}

void JobCore::CheckCommandDeadlines() {
  for (Group& group : groups_) {
    if (!group.command.has_value() || group.command->since == absl::Time()) continue;
    if (now_ - group.command->since <= options_.command_deadline) continue;
    for (const Slot& slot : roster_.slots()) {
      if (slot.role != group.role || slot.state == SlotState::kEmpty ||
          group.command->answers.count(slot.rank) > 0) {
        continue;
      }
      Do(StopTask{slot.worker, RefOf(group), "no answer in time"});
      return Evict(slot.worker,
                   absl::StrCat("no answer to ", MethodName(group.command->kind), " within ",
                                absl::FormatDuration(options_.command_deadline)));
    }
  }
}

}  // namespace baton::controller
