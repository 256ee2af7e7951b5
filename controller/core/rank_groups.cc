#include "controller/core/rank_groups.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/core/prompt_data.h"
#include "controller/core/roles.h"
#include "controller/core/task_failure.h"
#include "sdk/base/mutant.h"

namespace baton::controller {

uint64_t Group::VersionIn(const PolicyVersions& versions) const {
  return role == roles::kActor ? versions.newest() : version;
}

RankGroups::RankGroups(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  for (const GroupRole& role : GroupRolesOf(effective, dataflow)) {
    Group group;
    group.role = role.role;
    group.trains = role.trains;
    group.ranks = static_cast<uint32_t>(RanksOf(effective, role.role));
    group.tp = static_cast<uint32_t>(ShapeOf(effective, role.role).tp);
    groups_.push_back(std::move(group));
  }
}

void RankGroups::Restore(const store::v1::JobRow& row) {
  update_metrics_ = {row.update_metrics().begin(), row.update_metrics().end()};
  for (const store::v1::GroupRow& kept : row.groups()) {
    const Group* const found = Find(kept.role());
    if (found == nullptr) continue;
    Group* const group = &Own(*found);
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
}

void RankGroups::Save(store::v1::JobRow* row) const {
  for (const Group& group : groups_) {
    store::v1::GroupRow* kept = row->add_groups();
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
  for (const auto& [name, value] : update_metrics_) (*row->mutable_update_metrics())[name] = value;
}

const Group* RankGroups::Find(absl::string_view role) const {
  const auto group =
      std::find_if(groups_.begin(), groups_.end(), [&](const Group& g) { return g.role == role; });
  return group == groups_.end() ? nullptr : &*group;
}

bool RankGroups::Commanded() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](const Group& group) { return group.command.has_value(); });
}

bool RankGroups::Commanded(TaskKind kind) const {
  return std::any_of(groups_.begin(), groups_.end(), [&](const Group& group) {
    return group.command.has_value() && group.command->kind == kind;
  });
}

TaskRef RankGroups::RefOf(const Group& group, const EffectSink& out) const {
  const auto index = static_cast<uint32_t>(IndexOf(group));
  return out.Ref(group.command->kind, group.command->sequence, group.command->attempt, index);
}

void RankGroups::Issue(TaskKind kind, const Group& of, const EffectSink& out) {
  Group& group = Own(of);
  Command command;
  command.kind = kind;
  command.generation = group.generation;
  command.sequence = group.sequence += Mutant("skipped-sequence") ? 2 : 1;
  command.attempt = std::max(group.next_attempt, out.attempt_base());
  command.issued = out.now();
  group.next_attempt = 0;
  group.command = command;
}

void RankGroups::Send(const Group& group, const Slot& slot, TaskArgs args, EffectSink& out) {
  Command& command = *Own(group).command;
  command.since = out.now();
  command.sent.insert(slot.rank);
  StartTask task;
  task.worker = slot.worker;
  task.ref = RefOf(group, out);
  task.args = std::move(args);
  task.args.role = slot.role;
  task.args.rank = slot.rank;
  task.args.generation = command.generation;
  task.args.sequence = command.sequence;
  out.Do(std::move(task));
}

RankGroups::Answer RankGroups::Take(const Group& group, uint32_t rank, const TaskDone& event) {
  const TaskKind kind = group.command->kind;
  Own(group).command->answers[rank] = event;
  // Somebody may make room on a disk or in the relay. A GPU's memory stays full.
  const TaskFailure failure = FailureOf(event);
  const bool no_room = failure == TaskFailure::kNoRoom;
  const bool waits = kind == TaskKind::kPublish || kind == TaskKind::kSaveCheckpoint;
  if (no_room && waits) return Answer::kNoRoom;
  // The other ranks hold what this one could not gather, so the ranks no longer agree.
  const bool alone = no_room && kind == TaskKind::kToGeneration;
  if (group.ranks > 1 && (alone || BreaksGroup(failure))) return Answer::kBreaks;
  if (!event.status.ok()) return Answer::kFails;
  // The answers of a broken group mean nothing: it is formed anew.
  if (group.command->answers.size() < group.ranks || group.broken.has_value()) {
    return Answer::kWaits;
  }
  return Answer::kDone;
}

std::map<std::string, double> RankGroups::Complete(const Group& of, EffectSink& out) {
  Group& group = Own(of);
  room_.End();
  // The group got past the step at which it broke.
  const bool update = group.command->kind == TaskKind::kUpdate;
  if (update && out.step() + 1 > group.broke_at) group.failures = 0;
  std::map<std::string, double> metrics = group.command->answers.begin()->second.output.metrics;
  Drop(group, out);
  return metrics;
}

// The ranks that have answered a command need not answer it again.
void RankGroups::Drop(Group& group, EffectSink& out) {
  if (!group.command.has_value()) return;
  for (const auto& [rank, answer] : group.command->answers) {
    out.Do(AckResult{answer.worker, answer.ref});
  }
  group.command.reset();
}

void RankGroups::DropAll(EffectSink& out) {
  for (Group& group : groups_) Drop(group, out);
}

void RankGroups::Stop(const std::string& reason, const Roster& roster, EffectSink& out) const {
  for (const Group& group : groups_) {
    if (!group.command.has_value()) continue;
    for (const Slot& slot : roster.slots()) {
      const bool works = slot.role == group.role && slot.state == SlotState::kReady &&
                         group.command->answers.count(slot.rank) == 0;
      if (works) out.Do(StopTask{slot.worker, RefOf(group, out), reason});
    }
  }
}

void RankGroups::TryLater(const TaskDone& event, absl::Duration retry, EffectSink& out) {
  // All ranks try again together, and under the same number: some may never have heard of it, and
  // a rank that has seen a higher number refuses a lower one.
  for (Group& group : groups_) {
    if (!group.command.has_value()) continue;
    group.sequence = group.command->sequence - 1;
    group.next_attempt = out.NextAttempt(group.command->attempt);
  }
  DropAll(out);
  room_.Begin(event, retry, out);
}

void RankGroups::Returned(const Slot& slot, bool has_command, const EffectSink& out) {
  Command& command = *Own(*Find(slot.role)).command;
  if (!has_command && command.answers.count(slot.rank) == 0) {
    command.sent.erase(slot.rank);
    return;
  }
  if (Mutant("double-update") && command.kind == TaskKind::kUpdate) {
    command.attempt = out.NextAttempt(command.attempt);
    command.sent.erase(slot.rank);
    return;
  }
  command.sent.insert(slot.rank);
  // A worker that was away could not answer: its deadline counts from here.
  if (!Mutant("command-deadline-not-reset")) command.since = out.now();
}

std::optional<RankGroups::Overdue> RankGroups::FindOverdue(absl::Duration limit,
                                                           const Roster& roster,
                                                           const EffectSink& out) const {
  for (const Group& group : groups_) {
    if (!group.command.has_value() || group.command->since == absl::Time()) continue;
    if (out.now() - group.command->since <= limit) continue;
    for (const Slot& slot : roster.slots()) {
      const bool owes = slot.role == group.role && slot.state != SlotState::kEmpty &&
                        group.command->answers.count(slot.rank) == 0;
      if (owes) return Overdue{slot.worker, RefOf(group, out)};
    }
  }
  return std::nullopt;
}

std::map<std::string, double> RankGroups::TakeReports() {
  return std::exchange(update_metrics_, {});
}

void RankGroups::BeginGeneration(const Group& of, PolicyVersions& versions, EffectSink& out) {
  Group& group = Own(of);
  // Its commands count from one, and its weights are a new version, for versions only grow.
  ++group.generation;
  group.sequence = 0;
  group.next_attempt = 0;
  group.broken.reset();
  if (group.forming_since == absl::InfinitePast()) group.forming_since = out.now();
  Drop(group, out);
  if (group.role == roles::kActor) {
    versions.Begun(out);
  } else {
    ++group.version;
  }
}

absl::Status RankGroups::Break(const Group& of, const TaskDone& event,
                               const JobCoreOptions& options, const EffectSink& out) {
  Group& group = Own(of);
  // A group that only scores has no update that says that it got past a step.
  if (!group.trains && out.step() > group.broke_at) group.failures = 0;
  const std::string reason =
      absl::StrCat("worker ", event.worker, " reports: ", event.status.message());
  // Ranks may come late to their meeting, having other work to end first.
  const bool counts =
      IsGroupCommand(event.ref.kind) || out.now() - group.forming_since > options.setup_deadline;
  if (counts) ++group.failures;
  if (group.failures >= options.max_attempts) {
    return absl::Status(
        event.status.code(),
        absl::StrCat("the ", group.role, " group broke ", group.failures,
                     " times without getting past step ", out.step(), "; the last time ", reason));
  }
  group.broke_at = out.step();
  group.broken = Broken{reason, out.now()};
  return absl::OkStatus();
}

void RankGroups::NoteLoss(const Group& of) {
  Group& group = Own(of);
  if (group.broken.has_value()) group.failures -= std::min(group.failures, 1u);
}

std::optional<std::string> RankGroups::TakeBroken(const Group& group, absl::Duration delay,
                                                  absl::Time now) {
  if (!group.broken.has_value() || now - group.broken->since <= delay) return std::nullopt;
  return std::exchange(Own(group).broken, std::nullopt)->reason;
}

void RankGroups::Forgive() {
  for (Group& group : groups_) {
    group.failures = 0;
    group.forming_since = absl::InfinitePast();
  }
}

void RankGroups::Delay(absl::Duration duration, absl::Time now) {
  for (Group& group : groups_) {
    if (group.command.has_value()) DelayTime(duration, now, group.command->since);
    if (group.broken.has_value()) DelayTime(duration, now, group.broken->since);
    DelayTime(duration, now, group.forming_since);
  }
}

void ExplainGroup(const Group& group, const std::string& not_yet, absl::Time phase_since,
                  const Roster& roster, const JobCoreOptions& options, int64_t step,
                  WaitList& waits) {
  const std::string subject = absl::StrCat("role ", group.role);
  if (group.broken.has_value()) {
    waits.Add("regroup", subject,
              absl::StrCat("the controller to learn which rank of its group is lost (",
                           group.broken->reason, ")"),
              group.broken->since, options.regroup_delay,
              group.trains ? "the ranks form a new group, and go on from the checkpoint"
                           : "the ranks form a new group");
  }
  if (!group.command.has_value()) return;
  const Command& command = *group.command;
  const absl::string_view method = MethodName(command.kind);
  if (command.sent.empty() && !not_yet.empty()) {
    waits.Add("turn", subject,
              absl::StrCat("its turn on shared workers, for ", method, "; ", not_yet),
              command.issued == absl::Time() ? phase_since : command.issued,
              absl::InfiniteDuration(), "the command is sent when they are done");
    return;
  }
  std::vector<std::string> workers;
  for (const Slot& slot : roster.slots()) {
    const bool owes = slot.role == group.role && command.answers.count(slot.rank) == 0;
    if (owes) workers.push_back(slot.worker);
  }
  waits.Add(std::string(method), absl::StrCat("step ", step + 1),
            absl::StrCat("worker ", absl::StrJoin(workers, ", "), " to finish ", method),
            command.since == absl::Time() ? phase_since : command.since, options.command_deadline,
            "the trainer restarts from its checkpoint");
}

}  // namespace baton::controller
