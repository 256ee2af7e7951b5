#include "controller/core/workers/group_commands.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/core/job/task_failure.h"

namespace baton::controller {
namespace {

// The step that a command is about when `done` steps are done: an update makes the next one, while
// weights are published, and a checkpoint is saved, of the newest.
int64_t StepOf(TaskKind kind, int64_t done) { return kind == TaskKind::kUpdate ? done + 1 : done; }

}  // namespace

void GroupCommands::Restore(const store::v1::JobRow& row, const RankGroups& groups) {
  for (const store::v1::GroupRow& kept : row.groups()) {
    const Group* const group = groups.Find(kept.role());
    if (group == nullptr) continue;
    Line& line = lines_[group->index];
    line.sequence = kept.sequence();
    if (!kept.has_command()) continue;
    // Which ranks have the command is not stored, because each rank reports it when it attaches
    // again.
    Command command;
    command.kind = static_cast<TaskKind>(kept.command().kind());
    command.group_epoch = kept.command().group_epoch();
    command.sequence = kept.command().sequence();
    command.attempt = kept.command().attempt();
    line.command = command;
  }
}

void GroupCommands::Save(store::v1::JobRow* row) const {
  for (size_t i = 0; i < lines_.size(); ++i) {
    store::v1::GroupRow* const kept = row->mutable_groups(static_cast<int>(i));
    kept->set_sequence(lines_[i].sequence);
    const auto& command = lines_[i].command;
    if (!command.has_value()) continue;
    kept->mutable_command()->set_kind(static_cast<int>(command->kind));
    kept->mutable_command()->set_group_epoch(command->group_epoch);
    kept->mutable_command()->set_sequence(command->sequence);
    kept->mutable_command()->set_attempt(command->attempt);
  }
}

const Command* GroupCommands::Of(const Group& group) const {
  const auto& command = lines_[group.index].command;
  return command.has_value() ? &*command : nullptr;
}

bool GroupCommands::Any() const {
  return std::any_of(lines_.begin(), lines_.end(),
                     [](const Line& line) { return line.command.has_value(); });
}

bool GroupCommands::Any(TaskKind kind) const {
  return std::any_of(lines_.begin(), lines_.end(), [&](const Line& line) {
    return line.command.has_value() && line.command->kind == kind;
  });
}

TaskRef GroupCommands::RefOf(const Group& group, const EffectSink& out) const {
  const Command& command = *Of(group);
  return out.Ref(command.kind, command.sequence, command.attempt, group.index);
}

// ---- Flow of a command --------------------------------------------------------------------------

void GroupCommands::Issue(TaskKind kind, const Group& group, const EffectSink& out) {
  Line& line = lines_[group.index];
  Command command;
  command.kind = kind;
  command.group_epoch = group.group_epoch;
  command.sequence = ++line.sequence;
  command.attempt = line.attempt = std::max(line.attempt, out.attempt_base());
  command.issued = out.now();
  line.command = command;
}

void GroupCommands::Send(const Group& group, const RoleSlot& slot, TaskArgs args, EffectSink& out) {
  Command& command = *lines_[group.index].command;
  command.since = out.now();
  command.sent.insert(slot.rank);
  StartTask task;
  task.worker = slot.worker;
  task.ref = RefOf(group, out);
  task.args = std::move(args);
  task.args.role = slot.role;
  task.args.rank = slot.rank;
  task.args.group_epoch = command.group_epoch;
  task.args.sequence = command.sequence;
  out.Do(std::move(task));
}

void GroupCommands::Returned(const Group& group, uint32_t rank, bool has_command,
                             const EffectSink& out) {
  Command& command = *lines_[group.index].command;
  if (!has_command && command.answers.count(rank) == 0) {
    command.progress.erase(rank);
    command.sent.erase(rank);  // it was lost on the way, and is sent again
    return;
  }
  command.sent.insert(rank);
  // A worker that was away could not answer, so its deadline counts from here.
  command.since = out.now();
}

GroupCommands::Answer GroupCommands::Take(const Group& group, uint32_t rank,
                                          const TaskDone& event) {
  Command& command = *lines_[group.index].command;
  const TaskKind kind = command.kind;
  command.answers[rank] = event;
  // A person may make room on a disk or in the relay, but a GPU's memory stays full.
  const TaskFailure failure = FailureOf(event);
  const bool no_room = failure == TaskFailure::kNoRoom;
  const bool waits = kind == TaskKind::kPublish || kind == TaskKind::kSaveCheckpoint;
  if (no_room && waits) return Answer::kNoRoom;
  // The other ranks gathered the weights and this one could not, so the ranks no longer agree.
  const bool alone = no_room && kind == TaskKind::kToGeneration;
  if (group.ranks > 1 && (alone || BreaksGroup(failure))) return Answer::kBreaks;
  if (!event.status.ok()) return Answer::kFails;
  // The answers of a broken group do not count, because it is formed anew.
  if (command.answers.size() < group.ranks || group.broken.has_value()) return Answer::kWaits;
  return Answer::kDone;
}

std::map<std::string, double> GroupCommands::Complete(const Group& group, EffectSink& out) {
  Line& line = lines_[group.index];
  room_.End();  // the first command that is done says that there is room again
  std::map<std::string, double> metrics = line.command->answers.begin()->second.output.metrics;
  Drop(line, out);
  return metrics;
}

// The ranks that have answered a command need not answer it again.
void GroupCommands::Drop(Line& line, EffectSink& out) {
  if (!line.command.has_value()) return;
  for (const auto& [rank, answer] : line.command->answers) {
    out.Do(AckResult{answer.worker, answer.ref});
  }
  line.command.reset();
}

// ---- Progress of an update ----------------------------------------------------------------------

void GroupCommands::NoteProgress(const Group& group, uint32_t rank,
                                 const UpdateProgress& progress) {
  lines_[group.index].command->progress[rank] = progress;
}

std::optional<UpdateProgress> GroupCommands::ProgressOf(const Group& group) const {
  const Command* const command = Of(group);
  if (command == nullptr) return std::nullopt;
  std::optional<UpdateProgress> least;
  for (const auto& [rank, progress] : command->progress) {
    if (!least.has_value() || progress.IsBehind(*least)) least = progress;
  }
  return least;
}

// ---- Commands that are given up -----------------------------------------------------------------

void GroupCommands::TryLater(const TaskDone& event, absl::Duration retry, EffectSink& out) {
  // All ranks try again together, and under the same number: some may never have received the
  // command, and a rank that has seen a higher number refuses a lower one.
  for (Line& line : lines_) {
    if (!line.command.has_value()) continue;
    line.sequence = line.command->sequence - 1;
    line.attempt = out.NextAttempt(line.command->attempt);
  }
  DropAll(out);
  room_.Begin(event, retry, out);
}

void GroupCommands::Stop(const std::string& reason, const RankGroups& groups, const Roster& roster,
                         EffectSink& out) const {
  for (const Group& group : groups.all()) {
    const Command* const command = Of(group);
    if (command == nullptr) continue;
    for (const RoleSlot& slot : roster.slots()) {
      const bool works = slot.role == group.role && slot.state == SlotState::kReady &&
                         command->answers.count(slot.rank) == 0;
      if (works) out.Do(StopTask{slot.worker, RefOf(group, out), reason});
    }
  }
}

void GroupCommands::DropAll(EffectSink& out) {
  for (Line& line : lines_) Drop(line, out);
}

void GroupCommands::Restart(const Group& group, EffectSink& out) {
  Line& line = lines_[group.index];
  // The acknowledgement of an old answer must not be taken for that of a new answer.
  if (line.sequence > 0) {
    line.attempt = out.NextAttempt(line.attempt);
  }
  line.sequence = 0;
  Drop(line, out);
}

// ---- Waits --------------------------------------------------------------------------------------

std::optional<GroupCommands::Overdue> GroupCommands::FindOverdue(absl::Duration limit,
                                                                 const RankGroups& groups,
                                                                 const Roster& roster,
                                                                 const EffectSink& out) const {
  for (const Group& group : groups.all()) {
    const Command* const command = Of(group);
    // A command that was never sent has no deadline: it waits for its pool, which has one.
    if (command == nullptr || command->since == absl::Time()) continue;
    if (out.now() - command->since <= limit) continue;
    for (const RoleSlot& slot : roster.slots()) {
      const bool owes = slot.role == group.role && slot.state != SlotState::kEmpty &&
                        command->answers.count(slot.rank) == 0;
      if (owes) return Overdue{slot.worker, RefOf(group, out)};
    }
  }
  return std::nullopt;
}

void GroupCommands::Delay(absl::Duration duration, absl::Time now) {
  for (Line& line : lines_) {
    if (line.command.has_value()) DelayTime(duration, now, line.command->since);
  }
}

void GroupCommands::Explain(const Group& group, const std::string& not_yet, absl::Time since,
                            const Roster& roster, absl::Duration limit, int64_t step,
                            WaitList& waits) const {
  const Command* const command = Of(group);
  if (command == nullptr) return;
  const absl::string_view method = MethodName(command->kind);
  if (command->sent.empty() && !not_yet.empty()) {
    waits.Add("turn", absl::StrCat("role ", group.role),
              absl::StrCat("its turn on shared workers, for ", method, "; ", not_yet),
              command->issued == absl::Time() ? since : command->issued, absl::InfiniteDuration(),
              "the command is sent when they are done");
    return;
  }
  if (command->sent.empty() && command->since == absl::Time()) {
    const bool update = command->kind == TaskKind::kUpdate;
    waits.Add(update ? "batch" : "turn",
              absl::StrCat(method, " of step ", StepOf(command->kind, step)),
              update ? "its batch, which is made again after a restart of the controller"
                     : "its workers, after a restart of the controller",
              since, absl::InfiniteDuration(), "the command is sent then");
    return;
  }
  std::vector<std::string> workers;
  for (const RoleSlot& slot : roster.slots()) {
    const bool owes = slot.role == group.role && command->answers.count(slot.rank) == 0;
    if (owes) workers.push_back(slot.worker);
  }
  waits.Add(std::string(method), absl::StrCat("step ", StepOf(command->kind, step)),
            absl::StrCat("worker ", absl::StrJoin(workers, ", "), " to finish ", method),
            command->since == absl::Time() ? since : command->since, limit,
            "the trainer restarts from its checkpoint");
}

void RoomWait::Begin(const TaskDone& event, absl::Duration retry, EffectSink& out) {
  const std::string message(event.status.message());
  // The job tries every few seconds, so its user is told only of the first try.
  if (!wait_.has_value()) {
    out.Warn(absl::StrCat("worker ", event.worker, " has no space to ", MethodName(event.ref.kind),
                          ": ", message, "; it tries again until there is space"));
  }
  const absl::Time since = wait_.has_value() ? wait_->since : out.now();
  wait_ = Wait{event.ref.kind, message, since, out.now() + retry};
}

void RoomWait::Explain(int64_t step, WaitList& waits) const {
  if (!wait_.has_value()) return;
  waits.Add("space", absl::StrCat("step ", StepOf(wait_->kind, step)),
            absl::StrCat("room to ", MethodName(wait_->kind), ": ", wait_->message), wait_->since,
            std::max(waits.now(), wait_->retry) - wait_->since,
            "Baton tries again; free some space there, nothing is lost");
}

}  // namespace baton::controller
