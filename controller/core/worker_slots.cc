#include "controller/core/worker_slots.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "controller/cluster/need_queue.h"
#include "controller/spec/role_names.h"

namespace baton::controller {

WorkerSlots::WorkerSlots(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
                         const JobCoreOptions& options)
    : options_(options), roster_(effective, dataflow) {}

void WorkerSlots::Restore(const store::v1::JobRow& row) {
  // A row does not say that a slot is releasing, for it follows from the job's state. A pausing job
  // keeps its actor until it releases everyone.
  const v1::Job::State state = row.job().state();
  const bool keeps_actor = std::any_of(
      row.slots().begin(), row.slots().end(),
      [](const store::v1::SlotRow& slot) { return slot.role() == roles::kActor && slot.ready(); });
  const bool releasing =
      state == v1::Job::STATE_STOPPING || (state == v1::Job::STATE_PAUSING && !keeps_actor);
  roster_.Restore(row, releasing);
}

const RoleSlot* WorkerSlots::Awaits(const std::string& worker, const TaskRef& ref,
                                    const PolicyVersions& versions) const {
  const RoleSlot* const slot = roster_.At(ref.subject, worker);
  if (slot == nullptr || ref.attempt != slot->attempt) return nullptr;
  const bool assigning = slot->state == SlotState::kAssigning && !slot->answered;
  const bool awaits = ref.kind == TaskKind::kAssignRole    ? assigning
                      : ref.kind == TaskKind::kReleaseRole ? slot->state == SlotState::kReleasing
                                                           : versions.Of(ref.subject).loading != 0;
  return awaits ? slot : nullptr;
}

bool WorkerSlots::AreSetUp(const RankGroups& groups, bool goes_on) const {
  std::map<std::string, bool> one;  // role -> one of its workers is ready
  for (const RoleSlot& slot : roster_.slots()) {
    const Group* group = groups.Find(slot.role);
    if (group != nullptr && !slot.ready() && (group->trains || !goes_on)) return false;
    one[slot.role] |= slot.ready();
  }
  return goes_on ||
         std::all_of(one.begin(), one.end(), [](const auto& role) { return role.second; });
}

// ---- Workers come and go ------------------------------------------------------------------------

void WorkerSlots::Begin(absl::Time now) {
  for (RoleSlot& slot : roster_.slots()) slot.since = now;
}

void WorkerSlots::Ask(const RankGroups& groups, EffectSink& out) const {
  const auto any = [](const std::string& roles, const auto& is) {
    const std::vector<std::string> all = absl::StrSplit(roles, '+');
    return std::any_of(all.begin(), all.end(), is);
  };
  const auto grouped = [&](const std::string& role) { return groups.Find(role) != nullptr; };
  const auto blocks = [&](const std::string& role) {  // a group needs all, the others one
    const auto& slots = roster_.slots();
    return grouped(role) || std::all_of(slots.begin(), slots.end(), [&](const RoleSlot& slot) {
             return slot.role != role || slot.state == SlotState::kEmpty;
           });
  };
  NeedWorkers need{roster_.Missing(), {}};
  for (const auto& [roles, count] : need.missing) {
    if (any(roles, blocks)) need.hints.blocking.insert(roles);
  }
  for (const auto& [worker, roles] : roster_.Held()) {
    if (any(roles, grouped)) need.hints.anchored.insert(roles);
  }
  out.Do(std::move(need));
}

std::vector<const RoleSlot*> WorkerSlots::Place(const WorkerGranted& event, absl::Time now) {
  std::vector<const RoleSlot*> placed;
  for (RoleSlot* slot : roster_.FreeWorkerSlot(event.roles)) {
    const auto credits = event.credits.find(slot->role);
    slot->worker = event.worker;
    slot->credits = credits == event.credits.end() ? 1 : credits->second;
    slot->present = true;
    slot->state = SlotState::kGathering;
    slot->since = now;
    placed.push_back(slot);
  }
  return placed;
}

bool WorkerSlots::Attached(const std::string& worker) {
  bool first_time = false;
  for (const RoleSlot* slot : roster_.Of(worker)) {
    first_time |= !slot->present;
    Own(*slot).present = true;
  }
  return first_time;
}

std::optional<WorkerSlots::Loss> WorkerSlots::Lose(const std::string& worker, RankGroups& groups,
                                                   PolicyVersions& versions, absl::Time now) {
  const std::vector<const RoleSlot*> slots = roster_.Of(worker);
  if (slots.empty()) return std::nullopt;  // it left by another way already
  Loss loss;
  loss.worker_slot = roster_.Held().at(worker);
  for (const RoleSlot* slot : slots) {
    loss.roles.push_back(slot->role);
    loss.releasing |= slot->state == SlotState::kReleasing;
    if (const Group* group = groups.Find(slot->role)) {
      groups.NoteLoss(*group);
      // Of several roles that train, the actor names the loss: users call it the trainer.
      const bool holds = group->trains && slot->state == SlotState::kReady;
      if (holds && loss.trained != roles::kActor) loss.trained = slot->role;
    }
    Empty(Own(*slot), versions, now);
  }
  return loss;
}

void WorkerSlots::Empty(RoleSlot& slot, PolicyVersions& versions, absl::Time now) {
  // The attempt stays: it grows over all workers of the slot, so no token of a former one fits.
  slot.state = SlotState::kEmpty;
  slot.worker.clear();
  slot.present = false;
  versions.Forget(IndexOf(slot));
  slot.since = now;
  slot.trouble.clear();
}

void WorkerSlots::Leave(const RoleSlot& slot, PolicyVersions& versions, EffectSink& out) {
  const std::string worker = slot.worker;
  Empty(Own(slot), versions, out.now());
  // It may still play another role of its worker slot; then it is returned with that one.
  if (!roster_.Has(worker)) out.Do(ReturnWorker{worker});
}

void WorkerSlots::ReleaseAll(EffectSink& out) {
  for (RoleSlot& slot : roster_.slots()) {
    if (slot.state == SlotState::kEmpty) continue;
    slot.state = SlotState::kReleasing;
    slot.since = out.now();
    SendRelease(slot, out);
  }
}

void WorkerSlots::SendRelease(const RoleSlot& slot, EffectSink& out) {
  Own(slot).attempt = out.NextAttempt(slot.attempt);
  StartTask task;
  task.worker = slot.worker;
  task.args.role = slot.role;
  task.args.deadline = options_.release_deadline;
  task.ref = out.Ref(TaskKind::kReleaseRole, IndexOf(slot), slot.attempt);
  out.Do(std::move(task));
}

// The same attempt, so an answer to either of the two counts. The worker has nothing to do within a
// deadline the second time: that of the first goes on.
void WorkerSlots::RepeatRelease(const RoleSlot& slot, EffectSink& out) const {
  StartTask task;
  task.worker = slot.worker;
  task.args.role = slot.role;
  task.ref = out.Ref(TaskKind::kReleaseRole, IndexOf(slot), slot.attempt);
  out.Do(std::move(task));
}

// ---- Roles --------------------------------------------------------------------------------------

void WorkerSlots::Gather(const RoleSlot& of, EffectSink& out) {
  RoleSlot& slot = Own(of);
  if (slot.state == SlotState::kAssigning) {
    out.Do(StopTask{slot.worker, slot.assigned, "the ranks form a new group"});
  }
  slot.state = SlotState::kGathering;
  slot.since = out.now();
}

void WorkerSlots::Assign(const RoleSlot& of, TaskArgs args, PolicyVersions& versions,
                         EffectSink& out) {
  RoleSlot& slot = Own(of);
  slot.state = SlotState::kAssigning;
  slot.answered = false;
  versions.Forget(IndexOf(slot));  // whatever it held, it takes the role on anew
  slot.since = out.now();
  slot.attempt = out.NextAttempt(slot.attempt);
  StartTask task;
  task.worker = slot.worker;
  task.args = std::move(args);
  task.args.role = slot.role;
  task.args.deadline = options_.setup_deadline;
  task.ref = slot.assigned = out.Ref(TaskKind::kAssignRole, IndexOf(slot), slot.attempt);
  out.Do(PutJob{});
  out.Do(std::move(task));
}

void WorkerSlots::TookOn(const RoleSlot& of, absl::Time now) {
  RoleSlot& slot = Own(of);
  slot.state = SlotState::kReady;
  slot.failures = 0;  // failures in a row count, and this row has ended
  slot.since = now;
}

void WorkerSlots::LoadWeights(bool may_load, PolicyVersions& versions, TaskScheduler& rollouts,
                              EffectSink& out) {
  versions.Load(may_load, options_.setup_deadline, roster_, rollouts, out);
}

void WorkerSlots::ForgetAllFailures() {
  for (RoleSlot& slot : roster_.slots()) slot.failures = 0;
}

bool WorkerSlots::NoteTrouble(const RoleTroubled& event, absl::Time now) {
  const RoleSlot* const found = roster_.Find(event.worker, event.role);
  if (found == nullptr || found->state == SlotState::kReleasing) return false;
  RoleSlot& slot = Own(*found);
  // Another sentence about the same trouble does not make it younger.
  if (slot.trouble.empty()) slot.troubled_since = now;
  slot.trouble = event.message;
  return !event.message.empty();
}

// ---- Waits --------------------------------------------------------------------------------------

std::optional<WorkerSlots::Late> WorkerSlots::NextLate(size_t from, const PolicyVersions& versions,
                                                       absl::Time now) const {
  for (size_t i = from; i < roster_.slots().size(); ++i) {
    const RoleSlot& slot = roster_.slots()[i];
    const absl::Duration age = now - slot.since;
    const bool loads = versions.Of(i).loading != 0;
    // A slot that gathers has no deadline: it waits for other slots, which have theirs.
    if (slot.state == SlotState::kReleasing && age > options_.release_deadline) {
      return Late{i, TaskKind::kReleaseRole};
    }
    if ((slot.state == SlotState::kAssigning || loads) && age > options_.setup_deadline) {
      return Late{i, loads ? TaskKind::kLoadWeights : TaskKind::kAssignRole};
    }
  }
  return std::nullopt;
}

void WorkerSlots::Delay(absl::Duration duration, absl::Time now) {
  for (RoleSlot& slot : roster_.slots()) DelayTime(duration, now, slot.since);
}

void WorkerSlots::ExplainTrouble(const std::string& limit, WaitList& waits) const {
  for (const RoleSlot& slot : roster_.slots()) {
    if (slot.trouble.empty()) continue;
    waits.AddText("trouble", absl::StrCat("role ", slot.role),
                  absl::StrCat("worker ", slot.worker, ", which says: ", slot.trouble),
                  slot.troubled_since, limit);
  }
}

void WorkerSlots::ExplainMissing(const std::string& job, std::optional<absl::Time> queued_since,
                                 WaitList& waits) const {
  const std::map<std::string, int> missing = roster_.Missing();
  if (missing.empty()) return;
  absl::Time empty_since = waits.now();
  for (const RoleSlot& slot : roster_.slots()) {
    if (slot.state == SlotState::kEmpty) empty_since = std::min(empty_since, slot.since);
  }
  waits.Add("workers", queued_since.has_value() ? absl::StrCat("job ", job) : "a role",
            absl::StrCat(WantedText(missing), kToAttach), queued_since.value_or(empty_since),
            absl::InfiniteDuration(), "it goes on as soon as these workers are there");
}

void WorkerSlots::Explain(const PolicyVersions& versions, WaitList& waits) const {
  for (const RoleSlot& slot : roster_.slots()) {
    const std::string subject = absl::StrCat("role ", slot.role);
    if (slot.state != SlotState::kEmpty && !slot.present) {
      waits.Add("reattach", subject, absl::StrCat("worker ", slot.worker, " to attach again"),
                slot.since, options_.setup_deadline, "its work moves to another worker");
    } else if (slot.state == SlotState::kGathering) {
      waits.Add("gather", subject,
                absl::StrCat("the other ranks of its group, for rank ", slot.rank, " on worker ",
                             slot.worker),
                slot.since, absl::InfiniteDuration(), "all ranks take on the role together");
    } else if (slot.state == SlotState::kAssigning) {
      waits.Add("assign_role", subject,
                absl::StrCat("worker ", slot.worker, " to take on the role"), slot.since,
                options_.setup_deadline, "the role goes to another worker");
    } else if (const uint64_t version = versions.Of(IndexOf(slot)).loading; version != 0) {
      waits.Add("load_weights", subject,
                absl::StrCat("worker ", slot.worker, " to load policy version ", version),
                slot.since, options_.setup_deadline, "the role goes to another worker");
    } else if (slot.state == SlotState::kReleasing) {
      waits.Add("release_role", subject, absl::StrCat("worker ", slot.worker, " to leave its role"),
                slot.since, options_.release_deadline, "the job gives the worker back anyway");
    }
  }
}

}  // namespace baton::controller
