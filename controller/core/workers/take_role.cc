#include "controller/core/workers/take_role.h"
#include "controller/core/trajectories/running_tasks.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/job/task_failure.h"
#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {

namespace {

// The rank's tasks are queued again, because another rank may do them before the group has met.
void GatherRank(const RoleSlot& slot, const RoleContext& context) {
  context.slots.Gather(slot, context.out);
  TakeTasksBack(context.scheduler, slot.role, slot.worker, "the ranks form a new group",
                context.out);
}

// `group`: of the role; null: it has none.
void SendAssign(const RoleSlot& slot, const Group* group, const RoleContext& context) {
  const Roster& roster = context.slots.roster();
  TaskArgs args;
  args.policy_version = group != nullptr && group->trains ? group->VersionIn(context.versions)
                                                          : context.versions.newest();
  if (group != nullptr) {
    args.group_epoch = group->group_epoch;
    args.rank = slot.rank;
    args.first_worker = roster.FirstOf(group->role);
    if (group->trains) args.checkpoint_step = context.saved_step;
  }
  args.hybrid = roster.hybrid() && (slot.role == roles::kActor || slot.role == roles::kRollout);
  context.slots.Assign(slot, std::move(args), context.versions, context.out);
}

void FormWhenAllAreThere(const Group& group, const RoleContext& context) {
  const Roster& roster = context.slots.roster();
  context.out.Do(PutJob{});
  for (const RoleSlot& slot : roster.slots()) {
    const bool there =
        slot.state != SlotState::kEmpty && slot.state != SlotState::kReleasing && slot.present;
    if (slot.role == group.role && !there) return;
  }
  context.commands.Restart(group, context.out);
  context.groups.BeginEpoch(group, context.versions, context.out);
  for (const RoleSlot& slot : roster.slots()) {
    // The rollouts of a hybrid engine sample the actor's weights, and the actor begins anew.
    if (roster.hybrid() && group.role == roles::kActor && slot.role == roles::kRollout) {
      context.versions.replicas().Hold(context.slots.IndexOf(slot), 0);
    }
    if (slot.role != group.role) continue;
    GatherRank(slot, context);
    SendAssign(slot, &group, context);
  }
}

}  // namespace

void TakeRoleOn(const RoleSlot& slot, const RoleContext& context) {
  const Group* const group = context.groups.Find(slot.role);
  if (group == nullptr) return SendAssign(slot, nullptr, context);
  GatherRank(slot, context);
  FormWhenAllAreThere(*group, context);
}

absl::StatusOr<bool> OnRoleTaken(const TaskDone& event, const RoleSlot& slot,
                                 const RoleContext& context) {
  const Group* const group = context.groups.Find(slot.role);
  const TaskFailure failure = FailureOf(event);
  // The other ranks cannot meet without this one, so the group fails as a whole.
  if (group != nullptr && group->ranks > 1 && BreaksGroup(failure)) {
    context.slots.NoteAnswered(slot);
    const absl::Status status = BreakGroup(*group, event, context);
    if (!status.ok()) return status;
    return false;
  }
  if (!event.status.ok()) {
    if (IsPassing(failure) && context.slots.CountFailure(slot) < context.options.max_attempts) {
      TakeRoleOn(slot, context);
      return false;
    }
    return absl::Status(event.status.code(),
                        absl::StrCat("worker ", slot.worker, " could not take the role ", slot.role,
                                     ": ", event.status.message()));
  }
  context.slots.TookOn(slot, context.out.now());
  const Roster& roster = context.slots.roster();
  if (group == nullptr) {
    JoinQueue(slot, context);
  } else if (roster.AllReady(group->role)) {
    context.groups.Formed(*group);
    for (const RoleSlot& rank : roster.slots()) {
      if (rank.role == group->role) JoinQueue(rank, context);
    }
  }
  context.out.Do(PutJob{});
  return true;
}

void JoinQueue(const RoleSlot& slot, const RoleContext& context) {
  RoleQueues& queues = context.scheduler.queues();
  // A rollout is enabled once it holds the newest weights (PolicyVersions::Load).
  if (slot.role == roles::kRollout) {
    return queues.rollouts().tasks.AddWorker(slot.worker, slot.credits);
  }
  const auto scorer = queues.scorers().find(slot.role);
  if (scorer == queues.scorers().end()) return;
  const Group* const group = context.groups.Find(slot.role);
  const bool complete = group == nullptr ||
                        (!group->broken.has_value() && context.slots.roster().AllReady(slot.role));
  if (!complete) return;
  // Only the first rank of a copy of the model gets tasks; the others follow it.
  const bool follows = group != nullptr && slot.rank % group->tp != 0;
  if (follows) return;
  scorer->second.tasks.AddWorker(slot.worker, slot.credits);
  scorer->second.tasks.SetEnabled(slot.worker, true);
}

void FormAnew(const Group& group, const RoleContext& context) {
  context.groups.ForgetBroken(group);
  for (const RoleSlot& slot : context.slots.roster().slots()) {
    if (slot.role != group.role || slot.state == SlotState::kReleasing) continue;
    if (slot.state != SlotState::kEmpty) GatherRank(slot, context);
  }
  FormWhenAllAreThere(group, context);
}

absl::Status BreakGroup(const Group& group, const TaskDone& event, const RoleContext& context) {
  // Every rank notices that one is lost. Only the first report counts.
  if (group.broken.has_value()) return absl::OkStatus();
  const absl::Status status = context.groups.Break(group, event, context.options, context.out);
  if (!status.ok()) return status;
  for (const RoleSlot& slot : context.slots.roster().slots()) {  // it scores no more
    if (slot.role != group.role) continue;
    TakeTasksBack(context.scheduler, slot.role, slot.worker, "its group is broken", context.out);
  }
  context.out.Warn(absl::StrCat("the ", group.role, " group is broken; ", group.broken->reason));
  return absl::OkStatus();
}

}  // namespace baton::controller
