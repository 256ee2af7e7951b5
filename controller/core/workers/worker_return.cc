#include "controller/core/workers/worker_return.h"
#include "controller/core/trajectories/running_tasks.h"

#include <algorithm>
#include <vector>

namespace baton::controller {

namespace {

bool Mentions(const std::vector<TaskRef>& refs, const TaskRef& ref) {
  return std::find(refs.begin(), refs.end(), ref) != refs.end();
}

bool MentionsKind(const std::vector<TaskRef>& refs, TaskKind kind) {
  return std::any_of(refs.begin(), refs.end(),
                     [&](const TaskRef& ref) { return ref.kind == kind; });
}

// True if the rank's group gathers. The rank will then take the role on anew, whatever it holds.
bool GroupGathers(const RoleSlot& slot, const RoleContext& context) {
  return context.groups.Find(slot.role) != nullptr &&
         context.slots.roster().AnyIn(slot.role, SlotState::kGathering);
}

// The version of the worker's weights in that role; 0: it does not hold the role.
uint64_t HeldIn(const std::string& role, const WorkerReconnected& event) {
  const auto held = event.holds.find(role);
  return held == event.holds.end() ? 0 : held->second;
}

void ResumeLoading(const RoleSlot& slot, const WorkerReconnected& event,
                   const RoleContext& context) {
  PolicyVersions& versions = context.versions;
  const uint64_t index = context.slots.IndexOf(slot);
  versions.replicas().Hold(index, HeldIn(slot.role, event));
  if (!MentionsKind(event.running, TaskKind::kLoadWeights) &&
      !MentionsKind(event.unacked, TaskKind::kLoadWeights)) {
    versions.replicas().StopLoading(index);
  }
  for (const TaskRef& ref : event.running) {  // begun under another controller
    if (ref.kind == TaskKind::kLoadWeights && ref.subject == index &&
        versions.replicas().Of(index).loading == 0) {
      context.out.Do(StopTask{slot.worker, ref, "it is not wanted any more"});
      versions.replicas().Hold(index, 0);  // it may finish loading before the stop arrives
    }
  }
}

}  // namespace

bool GaveUpRole(const WorkerReconnected& event, const RoleContext& context) {
  const std::vector<const RoleSlot*> slots = context.slots.roster().Of(event.worker);
  return std::any_of(slots.begin(), slots.end(), [&](const RoleSlot* slot) {
    return slot->state == SlotState::kReady && event.holds.count(slot->role) == 0 &&
           !GroupGathers(*slot, context);
  });
}

void NoteCommands(const WorkerReconnected& event, const RoleContext& context) {
  for (const RoleSlot* slot : context.slots.roster().Of(event.worker)) {
    const Group* const group = context.groups.Find(slot->role);
    const bool commanded = group != nullptr && context.commands.Of(*group) != nullptr;
    if (!commanded || slot->state != SlotState::kReady) continue;
    const TaskRef ref = context.commands.RefOf(*group, context.out);
    const bool has = Mentions(event.running, ref) || Mentions(event.unacked, ref);
    context.commands.Returned(*group, slot->rank, has, context.out);
  }
}

void ResumeRole(const RoleSlot& slot, const WorkerReconnected& event, const RoleContext& context) {
  if (slot.state == SlotState::kReleasing) {
    // The release may have been lost on the way, so it is repeated. It is harmless twice.
    return context.slots.RepeatRelease(slot, context.out);
  }
  if (GroupGathers(slot, context)) return TakeRoleOn(slot, context);
  if (slot.state != SlotState::kAssigning) return;
  const auto this_try = [&](const std::vector<TaskRef>& refs) {
    return std::any_of(refs.begin(), refs.end(), [&](const TaskRef& ref) {
      return ref.kind == TaskKind::kAssignRole && ref.attempt == slot.attempt &&
             ref.subject == context.slots.IndexOf(slot);
    });
  };
  // A worker that fenced itself may still have a result for a role that it holds no more.
  const bool took = this_try(event.unacked) && event.holds.count(slot.role) > 0;
  if (!took && !this_try(event.running)) TakeRoleOn(slot, context);
}

void ResumeWork(const RoleSlot& slot, const WorkerReconnected& event, bool first_time,
                const RoleContext& context) {
  TaskScheduler& tasks = context.scheduler.queues().Of(slot.role);
  if (first_time) JoinQueue(slot, context);
  ResumeLoading(slot, event, context);
  // Tasks that it should run, but neither runs nor has finished, were lost on the way.
  std::vector<uint64_t> lost;
  for (const auto& [work, running] : tasks.running()) {
    if (running.worker != event.worker) continue;
    const TaskRef ref = context.scheduler.table().RefOf(slot.role, work);
    if (!Mentions(event.running, ref) && !Mentions(event.unacked, ref)) lost.push_back(work);
  }
  for (uint64_t work : lost) {
    tasks.Finish(work);
    RequeueTask(context.scheduler, slot.role, work, context.out);
  }
}

}  // namespace baton::controller
