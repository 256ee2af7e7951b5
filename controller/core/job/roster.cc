#include "controller/core/job/roster.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/spec/dataflow/pools.h"
#include "controller/spec/dataflow/roles.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {

namespace {

// The worker slot, within its pool, of rank i of a role. A replica of the hybrid engine shares the
// worker of the first actor rank that it consists of; of each copy of the model, the first tp /
// generation_tp ranks have one (docs/parallel.md).
size_t WorkerSlotInPool(const v1::JobSpec& effective, const std::string& role, int i, bool hybrid) {
  if (role != roles::kRollout || !hybrid) return static_cast<size_t>(i);
  const int tp = ShapeOf(effective, roles::kActor).tp;
  const int replicas = std::max(1, tp / GenerationTp(effective));  // of a copy
  return static_cast<size_t>(i / replicas * tp + i % replicas);
}

}  // namespace

absl::StatusOr<Roster> Roster::Create(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  Roster roster;
  BATON_RETURN_IF_ERROR(roster.Fill(effective, dataflow));
  return roster;
}

Roster::Roster(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  if (Fill(effective, dataflow).ok()) return;
  slots_.clear();
  worker_slots_.clear();
}

absl::Status Roster::Fill(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  hybrid_ = IsHybrid(effective, dataflow);
  const std::map<std::string, int> workers = WorkersOf(effective, dataflow);
  int64_t room = kMostSlots;
  for (const auto& [role, count] : workers) {
    if (count < 0 || count > room) {
      return absl::InvalidArgumentError(absl::StrCat(
          "role ", role, " asks for ", count, " workers; a job may have ", kMostSlots, " in all"));
    }
    room -= count;
  }
  // Pools first, because roles that share workers share worker slots. Then a slot of each role per
  // worker slot.
  std::map<std::string, size_t> first_worker_slot;
  for (const RolePool& pool : PoolsOf(effective, dataflow)) {
    for (const std::string& role : pool.roles) first_worker_slot[role] = worker_slots_.size();
    worker_slots_.resize(worker_slots_.size() + static_cast<size_t>(pool.workers));
  }
  for (const auto& [role, count] : workers) {
    const auto first = first_worker_slot.find(role);
    for (int i = 0; i < count; ++i) {
      RoleSlot slot;
      slot.role = role;
      slot.rank = static_cast<uint32_t>(i);
      slot.worker_slot = first == first_worker_slot.end()
                             ? worker_slots_.size()
                             : first->second + WorkerSlotInPool(effective, role, i, hybrid_);
      if (slot.worker_slot >= worker_slots_.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("rank ", i, " of role ", role, " has no worker in the role's pool"));
      }
      WorkerSlot& worker_slot = worker_slots_[slot.worker_slot];
      absl::StrAppend(&worker_slot.roles, worker_slot.slots.empty() ? "" : "+", role);
      worker_slot.slots.push_back(slots_.size());
      slots_.push_back(std::move(slot));
    }
  }
  return absl::OkStatus();
}

std::vector<const RoleSlot*> Roster::Match(const store::v1::JobRow& row) const {
  std::map<std::string, std::vector<const RoleSlot*>> of_role;
  for (const RoleSlot& slot : slots_) of_role[slot.role].push_back(&slot);
  // By role and rank, not by place, because the order of the roles in a row has no meaning.
  std::map<std::string, size_t> next;
  std::vector<const RoleSlot*> matched;
  for (const store::v1::SlotRow& kept : row.slots()) {
    const std::vector<const RoleSlot*>& slots = of_role[kept.role()];
    const size_t rank = next[kept.role()]++;
    matched.push_back(rank < slots.size() ? slots[rank] : nullptr);
  }
  return matched;
}

void Roster::Restore(const store::v1::JobRow& row, bool releasing) {
  const std::vector<const RoleSlot*> matched = Match(row);
  for (int i = 0; i < row.slots_size(); ++i) {
    if (matched[static_cast<size_t>(i)] == nullptr) continue;
    const store::v1::SlotRow& kept = row.slots(i);
    RoleSlot& slot = slots_[static_cast<size_t>(IndexOf(*matched[static_cast<size_t>(i)]))];
    slot.worker = kept.worker_id();
    slot.credits = kept.credits();
    slot.attempt = kept.attempt();
    if (slot.worker.empty()) continue;
    // A slot that was gathering is restored as assigning: when its worker attaches again, it
    // reports what it holds.
    slot.state = releasing      ? SlotState::kReleasing
                 : kept.ready() ? SlotState::kReady
                                : SlotState::kAssigning;
  }
}

void Roster::Keep(store::v1::JobRow* row) const {
  for (const RoleSlot& slot : slots_) {
    store::v1::SlotRow* kept = row->add_slots();
    kept->set_role(slot.role);
    kept->set_worker_id(slot.worker);
    kept->set_ready(slot.state == SlotState::kReady);
    kept->set_credits(slot.credits);
    kept->set_attempt(slot.attempt);
  }
}

const RoleSlot* Roster::Find(const std::string& worker, absl::string_view role) const {
  for (const RoleSlot& slot : slots_) {
    if (slot.worker == worker && slot.role == role && slot.state != SlotState::kEmpty) return &slot;
  }
  return nullptr;
}

RoleSlot* Roster::Find(const std::string& worker, absl::string_view role) {
  return const_cast<RoleSlot*>(static_cast<const Roster*>(this)->Find(worker, role));
}

const RoleSlot* Roster::At(uint64_t index, const std::string& worker) const {
  if (index >= slots_.size()) return nullptr;
  const RoleSlot& slot = slots_[index];
  return slot.worker == worker && slot.state != SlotState::kEmpty ? &slot : nullptr;
}

std::vector<const RoleSlot*> Roster::Of(const std::string& worker) const {
  std::vector<const RoleSlot*> slots;
  for (const RoleSlot& slot : slots_) {
    if (slot.worker == worker && slot.state != SlotState::kEmpty) slots.push_back(&slot);
  }
  return slots;
}

bool Roster::Has(const std::string& worker) const {
  return std::any_of(slots_.begin(), slots_.end(), [&](const RoleSlot& slot) {
    return slot.worker == worker && slot.state != SlotState::kEmpty;
  });
}

// A worker takes all roles of its worker slot or none, so a worker slot with one slot taken is not
// free.
bool Roster::IsFree(const WorkerSlot& worker_slot) const {
  return std::all_of(worker_slot.slots.begin(), worker_slot.slots.end(),
                     [&](size_t i) { return slots_[i].state == SlotState::kEmpty; });
}

std::map<std::string, std::string> Roster::Held() const {
  std::map<std::string, std::string> held;
  for (const RoleSlot& slot : slots_) {
    if (slot.state != SlotState::kEmpty) held[slot.worker] = worker_slots_[slot.worker_slot].roles;
  }
  return held;
}

std::map<std::string, int> Roster::Missing() const {
  std::map<std::string, int> missing;
  for (const WorkerSlot& worker_slot : worker_slots_) {
    if (IsFree(worker_slot)) ++missing[worker_slot.roles];
  }
  return missing;
}

std::vector<RoleSlot*> Roster::FreeWorkerSlot(const std::string& roles) {
  std::vector<RoleSlot*> slots;
  const auto worker_slot =
      std::find_if(worker_slots_.begin(), worker_slots_.end(),
                   [&](const WorkerSlot& s) { return s.roles == roles && IsFree(s); });
  if (worker_slot == worker_slots_.end()) return slots;
  for (size_t i : worker_slot->slots) slots.push_back(&slots_[i]);
  return slots;
}

bool Roster::AnyIn(SlotState state) const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [&](const RoleSlot& slot) { return slot.state == state; });
}

bool Roster::AnyIn(absl::string_view role, SlotState state) const {
  return std::any_of(slots_.begin(), slots_.end(), [&](const RoleSlot& slot) {
    return slot.role == role && slot.state == state;
  });
}

bool Roster::AnyTrouble(absl::string_view role) const {
  return std::any_of(slots_.begin(), slots_.end(), [&](const RoleSlot& slot) {
    return slot.role == role && !slot.trouble.empty();
  });
}

bool Roster::AllReady(absl::string_view role) const {
  return std::all_of(slots_.begin(), slots_.end(), [&](const RoleSlot& slot) {
    return slot.role != role || slot.state == SlotState::kReady;
  });
}

std::string Roster::FirstOf(absl::string_view role) const {
  for (const RoleSlot& slot : slots_) {
    if (slot.role == role && slot.rank == 0) return slot.worker;
  }
  return "";
}

}  // namespace baton::controller
