#include "controller/core/workers/slot_views.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "controller/cluster/need_queue.h"

namespace baton::controller {

const RoleSlot* AwaitingSlot(const Roster& roster, const std::string& worker, const TaskRef& ref,
                             const PolicyVersions& versions) {
  const RoleSlot* const slot = roster.At(ref.subject, worker);
  if (slot == nullptr || ref.attempt != slot->attempt) return nullptr;
  // A failure that broke the group was already handled; a repeated answer must not count again.
  const bool assigning = slot->state == SlotState::kAssigning && !slot->answered;
  const bool awaits = ref.kind == TaskKind::kAssignRole ? assigning
                      : ref.kind == TaskKind::kReleaseRole
                          ? slot->state == SlotState::kReleasing
                          : versions.replicas().Of(ref.subject).loading != 0;
  return awaits ? slot : nullptr;
}

bool AreSetUp(const Roster& roster, const RankGroups& groups, bool goes_on) {
  std::map<std::string, bool> one;  // role -> one of its workers is ready
  for (const RoleSlot& slot : roster.slots()) {
    const Group* group = groups.Find(slot.role);
    if (group != nullptr && !slot.ready() && (group->trains || !goes_on)) return false;
    one[slot.role] |= slot.ready();
  }
  return goes_on ||
         std::all_of(one.begin(), one.end(), [](const auto& role) { return role.second; });
}

NeedWorkers NeedOf(const Roster& roster, const RankGroups& groups) {
  const auto any = [](const std::string& roles, const auto& is) {
    const std::vector<std::string> all = absl::StrSplit(roles, '+');
    return std::any_of(all.begin(), all.end(), is);
  };
  const auto grouped = [&](const std::string& role) { return groups.Find(role) != nullptr; };
  const auto blocks = [&](const std::string& role) {  // a group needs all, the others one
    const auto& slots = roster.slots();
    return grouped(role) || std::all_of(slots.begin(), slots.end(), [&](const RoleSlot& slot) {
             return slot.role != role || slot.state == SlotState::kEmpty;
           });
  };
  // Hints for the queue: which worker slots keep the job from running, and which are tied to
  // workers that the job cannot exchange.
  NeedWorkers need{roster.Missing(), {}};
  for (const auto& [roles, count] : need.missing) {
    if (any(roles, blocks)) need.hints.blocking.insert(roles);
  }
  for (const auto& [worker, roles] : roster.Held()) {
    if (any(roles, grouped)) need.hints.anchored.insert(roles);
  }
  return need;
}

std::optional<LateSlot> NextLate(const Roster& roster, size_t from, const PolicyVersions& versions,
                                 const JobCoreOptions& options, absl::Time now) {
  for (size_t i = from; i < roster.slots().size(); ++i) {
    const RoleSlot& slot = roster.slots()[i];
    const absl::Duration age = now - slot.since;
    const bool loads = versions.replicas().Of(i).loading != 0;
    // A gathering slot has no deadline: it waits for other slots, which have deadlines of their
    // own.
    if (slot.state == SlotState::kReleasing && age > options.release_deadline) {
      return LateSlot{i, TaskKind::kReleaseRole};
    }
    if ((slot.state == SlotState::kAssigning || loads) && age > options.setup_deadline) {
      return LateSlot{i, loads ? TaskKind::kLoadWeights : TaskKind::kAssignRole};
    }
  }
  return std::nullopt;
}

void ExplainTrouble(const Roster& roster, const std::string& limit, WaitList& waits) {
  for (const RoleSlot& slot : roster.slots()) {
    if (slot.trouble.empty()) continue;
    waits.AddText("trouble", absl::StrCat("role ", slot.role),
                  absl::StrCat("worker ", slot.worker, ", which says: ", slot.trouble),
                  slot.troubled_since, limit);
  }
}

// The wait counts from the oldest free slot: that long the job has lacked a worker.
void ExplainMissing(const Roster& roster, const std::string& job,
                    std::optional<absl::Time> queued_since, WaitList& waits) {
  const std::map<std::string, int> missing = roster.Missing();
  if (missing.empty()) return;
  absl::Time empty_since = waits.now();
  for (const RoleSlot& slot : roster.slots()) {
    if (slot.state == SlotState::kEmpty) empty_since = std::min(empty_since, slot.since);
  }
  waits.Add("workers", queued_since.has_value() ? absl::StrCat("job ", job) : "a role",
            absl::StrCat(WantedText(missing), kToAttach), queued_since.value_or(empty_since),
            absl::InfiniteDuration(), "it goes on as soon as these workers are there");
}

void ExplainSlots(const Roster& roster, const PolicyVersions& versions,
                  const JobCoreOptions& options, WaitList& waits) {
  for (const RoleSlot& slot : roster.slots()) {
    const std::string subject = absl::StrCat("role ", slot.role);
    if (slot.state != SlotState::kEmpty && !slot.present) {
      waits.Add("reattach", subject, absl::StrCat("worker ", slot.worker, " to attach again"),
                slot.since, options.setup_deadline, "its work moves to another worker");
    } else if (slot.state == SlotState::kGathering) {
      waits.Add("gather", subject,
                absl::StrCat("the other ranks of its group, for rank ", slot.rank, " on worker ",
                             slot.worker),
                slot.since, absl::InfiniteDuration(), "all ranks take on the role together");
    } else if (slot.state == SlotState::kAssigning) {
      waits.Add("assign_role", subject,
                absl::StrCat("worker ", slot.worker, " to take on the role"), slot.since,
                options.setup_deadline, "the role goes to another worker");
    } else if (const uint64_t version =
                   versions.replicas().Of(static_cast<uint64_t>(roster.IndexOf(slot))).loading;
               version != 0) {
      waits.Add("load_weights", subject,
                absl::StrCat("worker ", slot.worker, " to load policy version ", version),
                slot.since, options.setup_deadline, "the role goes to another worker");
    } else if (slot.state == SlotState::kReleasing) {
      waits.Add("release_role", subject, absl::StrCat("worker ", slot.worker, " to leave its role"),
                slot.since, options.release_deadline, "the job gives the worker back anyway");
    }
  }
}

}  // namespace baton::controller
