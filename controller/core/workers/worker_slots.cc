#include "controller/core/workers/worker_slots.h"

#include <algorithm>
#include <utility>

#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {

WorkerSlots::WorkerSlots(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
                         const JobCoreOptions& options)
    : options_(options), roster_(effective, dataflow) {}

void WorkerSlots::Restore(const store::v1::JobRow& row) {
  // A row does not say that a slot is releasing, because this follows from the job's state. A
  // pausing job keeps its actor until it releases all workers.
  const v1::Job::State state = row.job().state();
  const bool keeps_actor = std::any_of(
      row.slots().begin(), row.slots().end(),
      [](const store::v1::SlotRow& slot) { return slot.role() == roles::kActor && slot.ready(); });
  const bool releasing =
      state == v1::Job::STATE_STOPPING || (state == v1::Job::STATE_PAUSING && !keeps_actor);
  roster_.Restore(row, releasing);
}

// ---- Workers come and go ------------------------------------------------------------------------

void WorkerSlots::Begin(absl::Time now) {
  for (RoleSlot& slot : roster_.slots()) slot.since = now;
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
      // If several roles that train are lost, the loss is reported as the actor's, which users call
      // the trainer.
      const bool holds = group->trains && slot->state == SlotState::kReady;
      if (holds && loss.trained != roles::kActor) loss.trained = slot->role;
    }
    Empty(Own(*slot), versions, now);
  }
  return loss;
}

void WorkerSlots::Empty(RoleSlot& slot, PolicyVersions& versions, absl::Time now) {
  // The attempt stays and grows over all workers of the slot, so a former worker's tokens never
  // match.
  slot.state = SlotState::kEmpty;
  slot.worker.clear();
  slot.present = false;
  versions.replicas().Forget(IndexOf(slot));
  slot.since = now;
  slot.trouble.clear();
}

void WorkerSlots::Leave(const RoleSlot& slot, PolicyVersions& versions, EffectSink& out,
                        ReturnReason return_reason) {
  const std::string worker = slot.worker;
  Empty(Own(slot), versions, out.now());
  // The worker may still play another role of its worker slot; then it is returned with its last
  // role.
  if (!roster_.Has(worker)) out.Do(ReturnWorker{worker, return_reason});
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

// The same attempt, so an answer to either message counts. The second message sets no new deadline:
// the first one goes on.
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
  versions.replicas().Forget(IndexOf(slot));  // whatever it held, it takes the role on anew
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
  versions.replicas().Load(versions.served(), may_load, options_.setup_deadline, versions.relays(),
                           roster_, rollouts, out);
}

void WorkerSlots::ForgetAllFailures() {
  for (RoleSlot& slot : roster_.slots()) slot.failures = 0;
}

bool WorkerSlots::NoteTrouble(const RoleTroubled& event, absl::Time now) {
  const RoleSlot* const found = roster_.Find(event.worker, event.role);
  if (found == nullptr || found->state == SlotState::kReleasing) return false;
  RoleSlot& slot = Own(*found);
  // Another report of the same trouble does not restart its time.
  if (slot.trouble.empty()) slot.troubled_since = now;
  slot.trouble = event.message;
  return !event.message.empty();
}

void WorkerSlots::Delay(absl::Duration duration, absl::Time now) {
  for (RoleSlot& slot : roster_.slots()) DelayTime(duration, now, slot.since);
}

}  // namespace baton::controller
