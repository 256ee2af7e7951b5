// The roster of a job: its slots, the workers in them, and which slots share a worker.
//
// A pool is a set of worker slots that some roles share: as many as its largest role has slots.
// Rank i of a role is in worker slot i, so a worker that takes a worker slot takes one slot of
// every role that has this rank. A role that shares with no other has a pool of its own, and its
// slots are its worker slots.
#ifndef BATON_CONTROLLER_CORE_JOB_ROSTER_H_
#define BATON_CONTROLLER_CORE_JOB_ROSTER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "controller/core/job/task.h"

namespace baton::controller {

/// The state of a slot's worker; kGathering: it waits for the other ranks of its group.
enum class SlotState { kEmpty, kGathering, kAssigning, kReady, kReleasing };

/// A place for a worker in a role, and who has it.
struct RoleSlot {
  std::string role;
  uint32_t rank = 0;       ///< In its role.
  size_t worker_slot = 0;  ///< Slots of one worker slot have one worker.
  std::string worker;
  SlotState state = SlotState::kEmpty;
  int credits = 1;
  uint64_t attempt = 0;
  uint32_t failures = 0;
  bool present = false;       ///< Attached, as far as the job knows.
  absl::Time since;           ///< When its state, or a load of weights, began.
  TaskRef assigned;           ///< The assign_role task, while kAssigning.
  bool answered = false;      ///< assign_role failed with the group, and is sent again with it.
  std::string trouble;        ///< The worker's report of what keeps it from its work …
  absl::Time troubled_since;  ///< … and since when.

  bool ready() const { return state == SlotState::kReady && present; }
};

/// Pure. The number of slots, at most kMostSlots, their roles and worker slots never change.
class Roster {
 public:
  /// More slots than a job may have workers (kMaxJobWorkers), each of which may play some roles.
  static constexpr int64_t kMostSlots = int64_t{1} << 20;

  Roster() = default;
  /// Slots by role and rank. INVALID_ARGUMENT: the roles ask for more than kMostSlots, or one for a
  /// negative number, or a role's ranks do not fit into its pool.
  static absl::StatusOr<Roster> Create(const v1::JobSpec& effective, const v1::Dataflow& dataflow);
  /// The same of a spec that was checked (CheckRow, CheckSpec): no slots where Create refuses.
  Roster(const v1::JobSpec& effective, const v1::Dataflow& dataflow);

  /// Restores the workers of all slots from a row, which lists each role's slots by rank.
  /// `releasing`: all workers are about to leave.
  void Restore(const store::v1::JobRow& row, bool releasing);
  void Keep(store::v1::JobRow* row) const;

  std::vector<RoleSlot>& slots() { return slots_; }
  const std::vector<RoleSlot>& slots() const { return slots_; }
  /// Maps each slot of the row to the slot that it restores; null if it is surplus.
  std::vector<const RoleSlot*> Match(const store::v1::JobRow& row) const;
  int IndexOf(const RoleSlot& slot) const { return static_cast<int>(&slot - slots_.data()); }

  /// The slot that this worker has in this role; null: none.
  RoleSlot* Find(const std::string& worker, absl::string_view role);
  const RoleSlot* Find(const std::string& worker, absl::string_view role) const;
  /// The slot of that index, if this worker has it.
  const RoleSlot* At(uint64_t index, const std::string& worker) const;
  /// The slots of a worker.
  std::vector<const RoleSlot*> Of(const std::string& worker) const;
  bool Has(const std::string& worker) const;

  /// Workers with their roles, joined by "+".
  std::map<std::string, std::string> Held() const;
  /// Free worker slots: roles, joined by "+" -> count.
  std::map<std::string, int> Missing() const;
  /// The slots of a free worker slot of these roles; empty: there is none.
  std::vector<RoleSlot*> FreeWorkerSlot(const std::string& roles);

  bool AnyIn(SlotState state) const;
  bool AnyIn(absl::string_view role, SlotState state) const;
  /// True if some worker of the role reports what keeps it from its work.
  bool AnyTrouble(absl::string_view role) const;
  /// True if every slot of the role is ready.
  bool AllReady(absl::string_view role) const;
  /// The worker of rank 0; "": none.
  std::string FirstOf(absl::string_view role) const;

  /// True if actor and rollouts share their workers: the rollouts sample the same weights that are
  /// trained.
  bool hybrid() const { return hybrid_; }

 private:
  struct WorkerSlot {
    std::string roles;          // joined by "+"
    std::vector<size_t> slots;  // by index
  };
  absl::Status Fill(const v1::JobSpec& effective, const v1::Dataflow& dataflow);
  bool IsFree(const WorkerSlot& worker_slot) const;

  std::vector<RoleSlot> slots_;
  std::vector<WorkerSlot> worker_slots_;
  bool hybrid_ = false;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_ROSTER_H_
