// JobCore: commands of the groups that train, and the deadlines of everything.
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/job_core.h"
#include "controller/core/lost_groups.h"
#include "controller/core/metric_names.h"
#include "controller/core/role_names.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

// Every role that has an update node in this step, at once.
void JobCore::StartUpdate() {
  groups_.TakeReports();
  // Also of a batch that filters left nothing of: the step is done, and the algorithm goes on.
  if (is_rl()) {
    buffer_.PutRow(scheduler_.table().all(), LeastResponses(spec(), dataflow()), out_);
  }
  if (buffer_.batch_size() == 0) return FinishStep({}, /*updated=*/false);
  const bool warms_up = out_.step() < spec().algorithm().critic_warmup();
  for (const Group& group : groups_.all()) {
    if (!group.trains || (warms_up && group.role == roles::kActor)) continue;
    IssueCommand(TaskKind::kUpdate, group);
  }
}

void JobCore::OnUpdated(const Group& group, Metrics metrics) {
  // The actor's version grows when the step is done.
  if (group.role != roles::kActor) groups_.MadeVersion(group);
  dropped_names_ += DropSurplus(job_.metrics(), &metrics);
  for (const auto& [name, value] : metrics) groups_.Report(name, value);
  groups_.Report("timing_s/update_" + group.role, absl::ToDoubleSeconds(out_.now() - phase_since_));
  if (groups_.Commanded()) return out_.Do(PutJob{});
  const bool updated = out_.step() >= spec().algorithm().critic_warmup();
  FinishStep(groups_.TakeReports(), updated);
}

// A checkpoint has a part of every role that trains.
void JobCore::IssueSave() {
  for (const Group& group : groups_.all()) {
    if (group.trains) IssueCommand(TaskKind::kSaveCheckpoint, group);
  }
}

void JobCore::IssueCommand(TaskKind kind, const Group& group) {
  groups_.Issue(kind, group, out_);
  const bool working = phase_ == Phase::kGenerate || phase_ == Phase::kEvaluate;
  if (!working) {  // a version published again does not interrupt the work with it
    SetPhase(kind == TaskKind::kUpdate ? Phase::kUpdate
             : kind == HandOver()      ? Phase::kPublish
                                       : Phase::kSave);
  }
  if (kind == HandOver()) versions_.BeginPublishing(out_.now());
  out_.Do(PutJob{});
  SendCommand(group, Commands());
}

void JobCore::OnCommand(const TaskDone& event) {
  const Group& group = groups_.all()[event.ref.part];
  const TaskKind kind = event.ref.kind;
  switch (groups_.Take(group, roster().Find(event.worker, group.role)->rank, event)) {
    case RankGroups::Answer::kWaits:
      return;
    case RankGroups::Answer::kNoRoom:
      return WaitForRoom(event);
    case RankGroups::Answer::kBreaks:
      return BreakGroup(group, event);
    case RankGroups::Answer::kFails:
      groups_.room().End();
      return Fail(absl::Status(event.status.code(),
                               absl::StrCat(MethodName(kind), " failed on worker ", event.worker,
                                            ": ", event.status.message())));
    case RankGroups::Answer::kDone:
      break;
  }
  const Metrics metrics = groups_.Complete(group, out_);
  if (!pools_.empty()) SendWaitingCommands(Commands());
  switch (kind) {
    case TaskKind::kUpdate:
      return OnUpdated(group, metrics);
    case TaskKind::kPublish:
      versions_.Published();
      if (phase_ == Phase::kPublish) SetPhase(Phase::kNone);
      out_.Do(PutJob{});
      if (buffer_.TakeHeld()) return StartUpdate();
      return Advance();
    case TaskKind::kToGeneration:
      versions_.HandedOver(out_.now());
      if (phase_ == Phase::kPublish) SetPhase(Phase::kNone);
      out_.Do(PutJob{});
      return Advance();
    case TaskKind::kSaveCheckpoint: {
      if (groups_.Commanded()) return out_.Do(PutJob{});
      milestones_.BeginCommit(out_.step(), out_.now());
      store::v1::JobRow row = Row();
      row.clear_checkpoints();  // they have rows of their own
      out_.Do(CommitCheckpoint{out_.step(), out_.incarnation(), std::move(row)});
      return out_.Do(PutJob{});
    }
    default:
      return;
  }
}

void JobCore::WaitForRoom(const TaskDone& event) {
  groups_.TryLater(event, options_.no_room_retry, out_);
  // A version published again interrupts neither the work with it nor the batch of that work.
  const bool builds = phase_ == Phase::kBatch && !Mutant("no-room-drops-batch");
  const bool working = phase_ == Phase::kGenerate || phase_ == Phase::kEvaluate || builds;
  if (!working) SetPhase(Phase::kNone);
  out_.Do(PutJob{});
  if (buffer_.TakeHeld()) StartUpdate();  // the actor is free, and the batch needs no relay
}

// Deadlines of what the controller itself has to do: read data, build a batch, complete a
// checkpoint. All of it depends on the disk of the data root alone.
void JobCore::CheckOwnDeadlines() {
  const absl::Duration limit = options_.setup_deadline;
  if (const absl::Status late = data_.CheckDeadline(out_.now(), limit); !late.ok()) {
    return Fail(late);
  }
  if (phase_ == Phase::kBatch && out_.now() - phase_since_ > limit) {
    return Fail(absl::DeadlineExceededError(
        absl::StrCat("the batch of step ", out_.step() + 1, " was not built within ",
                     absl::FormatDuration(limit), "; check the disk of the data root")));
  }
  const absl::Status late = milestones_.CheckDeadline(out_.step(), out_.now(), limit);
  if (!late.ok()) Fail(late);
}

// The controller could send nothing during that time, so no worker could answer. Every deadline
// moves by it.
void JobCore::On(const TimeLost& event) {
  const absl::Time now = out_.now();
  slots_.Delay(event.duration, now);
  DelayTime(event.duration, now, phase_since_);
  data_.Delay(event.duration, now);
  milestones_.Delay(event.duration, now);
  groups_.Delay(event.duration, now);
  scheduler_.queues().Delay(event.duration, now);
}

void JobCore::CheckTaskDeadlines() {
  const absl::Time stalled = out_.now() - options_.generate_stall;
  const std::vector<std::string> silent =
      scheduler_.queues().rollouts().manager.SilentSince(stalled);
  const absl::Status status = scheduler_.CheckGenerations(Work());
  if (!status.ok()) return Fail(status);
  // A worker that let all its generations stall hangs itself, and would take new ones in vain.
  for (const std::string& worker : silent) {
    Evict(worker,
          absl::StrCat("it did not answer for ", absl::FormatDuration(options_.generate_stall)));
  }
  CheckScoreDeadlines();
  CheckCommandDeadlines();
  Dispatch();
}

void JobCore::CheckScoreDeadlines() {
  for (auto& [role, queue] : scheduler_.queues().scorers()) {
    for (uint64_t work : scheduler_.StalledScores(role, out_.now())) {
      const auto late = scheduler_.LateScore(role, work, out_);
      if (!late.has_value()) continue;  // the one before it ended the job
      out_.Do(StopTask{late->worker, late->ref, "too slow"});
      OnScored(*late, /*late=*/true);
    }
  }
}

void JobCore::CheckCommandDeadlines() {
  const auto late = groups_.FindOverdue(options_.command_deadline, roster(), out_);
  if (!late.has_value()) return;
  out_.Do(StopTask{late->worker, late->ref, "no answer in time"});
  Evict(late->worker, absl::StrCat("no answer to ", MethodName(late->ref.kind), " within ",
                                   absl::FormatDuration(options_.command_deadline)));
}

// How rollouts get a version: through the relay, or by the ranks that they are.
TaskKind JobCore::HandOver() const {
  return roster().hybrid() ? TaskKind::kToGeneration : TaskKind::kPublish;
}

}  // namespace baton::controller
