// JobCore: the ranks that share a role's model meet, and meet anew.
//
// Ranks take their role on together, in one generation, or not at all. When one of them is lost,
// the others cannot go on (their collectives fail): the group is formed anew as soon as somebody
// takes the lost one's place. One that trains goes back to the newest checkpoint, and with it all
// that train; one that only scores loses nothing but the scores under way, which wait for it. Ranks
// may notice before the lease of the lost one ends; then the group waits for that, and when nobody
// turns out to be lost it meets again as it was.
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/job_core.h"

namespace baton::controller {

void JobCore::Gather(Slot& slot) {
  if (slot.state == SlotState::kAssigning) {
    Do(StopTask{slot.worker, slot.assigned, "its group is formed anew"});
  }
  RequeueTasksOf(slot, slot.worker, "its group is formed anew");
  slot.state = SlotState::kGathering;
  slot.since = now_;
}

// All take the role on, once all are there.
void JobCore::FormGroup(Group& group) {
  Do(PutJob{});
  for (const Slot& slot : roster_.slots()) {
    const bool there =
        slot.state != SlotState::kEmpty && slot.state != SlotState::kReleasing && slot.present;
    if (slot.role == group.role && !there) return;
  }
  // Its commands count from one, and its weights are a new version, for versions only grow.
  ++group.generation;
  group.sequence = 0;
  group.next_attempt = 0;
  group.broken.reset();
  if (group.forming_since == absl::InfinitePast()) group.forming_since = now_;
  DropCommand(group);
  ++(group.role == "actor" ? policy_version_ : group.version);
  if (group.role == "actor") published_ = false;
  for (Slot& slot : roster_.slots()) {
    if (roster_.hybrid() && group.role == "actor" && slot.role == "rollout") slot.version = 0;
    if (slot.role != group.role) continue;
    Gather(slot);
    SendAssign(slot, &group);
  }
}

// Whoever is there waits for the others.
void JobCore::FormAnew(Group& group) {
  group.broken.reset();
  for (Slot& slot : roster_.slots()) {
    if (slot.role != group.role || slot.state == SlotState::kReleasing) continue;
    if (slot.state != SlotState::kEmpty) Gather(slot);
  }
  FormGroup(group);
}

// What a rank reports when it misses another one.
bool JobCore::Breaks(const Group& group, const absl::Status& status) {
  return group.ranks > 1 && (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
                             absl::IsAborted(status) || absl::IsCancelled(status));
}

void JobCore::BreakGroup(Group& group, const TaskDone& event) {
  if (group.broken.has_value()) return;
  if (!group.trains && step_ > group.broke_at) group.failures = 0;
  const std::string reason =
      absl::StrCat("worker ", event.worker, " reports: ", event.status.message());
  // Ranks may come late to their meeting, having other work to end first.
  const bool counts =
      IsGroupCommand(event.ref.kind) || now_ - group.forming_since > options_.setup_deadline;
  if (counts) ++group.failures;
  if (group.failures >= options_.max_attempts) {
    return Fail(absl::Status(
        event.status.code(),
        absl::StrCat("the ", group.role, " group broke ", group.failures,
                     " times without getting past step ", step_, "; the last time ", reason)));
  }
  group.broke_at = step_;
  group.broken = Broken{reason, now_};
  for (Slot& slot : roster_.slots()) {  // it scores no more
    if (slot.role == group.role) RequeueTasksOf(slot, slot.worker, "its group is broken");
  }
  EmitWarning(absl::StrCat("the ", group.role, " group is broken; ", reason));
}

void JobCore::CheckGroups() {
  for (Group& group : groups_) {
    if (!group.broken.has_value() || now_ - group.broken->since <= options_.regroup_delay) continue;
    const std::string reason = std::exchange(group.broken, std::nullopt)->reason;
    if (group.trains && roster_.AnyIn(group.role, SlotState::kReady)) {
      RecoverTrainer(group.role, reason);  // which forms it anew, and what trains with it
    } else {
      FormAnew(group);
    }
  }
}

}  // namespace baton::controller
