#include "controller/core/weights/replica_weights.h"

#include <algorithm>
#include <utility>

#include "controller/spec/dataflow/role_names.h"

namespace baton::controller {

const ReplicaWeights::Replica& ReplicaWeights::Of(uint64_t slot) const {
  static const auto* const none = new Replica;
  const auto found = replicas_.find(slot);
  return found == replicas_.end() ? *none : found->second;
}

bool ReplicaWeights::AnyLoading() const {
  return std::any_of(replicas_.begin(), replicas_.end(),
                     [](const auto& replica) { return replica.second.loading != 0; });
}

void ReplicaWeights::Hold(uint64_t slot, uint64_t version) { replicas_[slot].version = version; }

void ReplicaWeights::StopLoading(uint64_t slot) {
  const auto found = replicas_.find(slot);
  if (found != replicas_.end()) found->second.loading = 0;
}

void ReplicaWeights::Loaded(uint64_t slot) {
  Replica& replica = replicas_[slot];
  replica.version = std::exchange(replica.loading, 0);
}

bool ReplicaWeights::SomeRolloutHas(uint64_t version, const Roster& roster) const {
  const auto& slots = roster.slots();
  return std::any_of(slots.begin(), slots.end(), [&](const RoleSlot& slot) {
    if (slot.role != roles::kRollout || !slot.ready()) return false;
    const Replica& replica = Of(static_cast<uint64_t>(roster.IndexOf(slot)));
    return replica.loading == version || (replica.loading == 0 && replica.version == version);
  });
}

void ReplicaWeights::Load(uint64_t served, bool may_load, absl::Duration deadline,
                          const RelayVersions& relays, Roster& roster, TaskScheduler& rollouts,
                          EffectSink& out) {
  // Work may wait for an older version; then one rollout must hold it.
  uint64_t pinned = rollouts.PinnedVersion();
  // While no version is published the relay has nothing, not even an older version.
  if (pinned == served || served == 0) pinned = 0;
  const bool missing = pinned != 0 && !SomeRolloutHas(pinned, roster);
  bool provided = false;  // by a slot before this one
  for (RoleSlot& slot : roster.slots()) {
    if (slot.role != roles::kRollout || !slot.ready()) continue;
    const auto index = static_cast<uint64_t>(roster.IndexOf(slot));
    Replica& replica = replicas_[index];
    // A hybrid rollout samples the weights that its own worker trains: there is nothing to load.
    if (roster.hybrid()) replica.version = served;
    const bool provides =
        pinned != 0 && !provided &&
        (replica.version == pinned || (missing && relays.IsAt(slot.worker, pinned, roster)));
    provided |= provides;
    // While no version is published each rollout goes on with the version that it has.
    const uint64_t newest = served != 0 ? served : replica.version;
    const uint64_t target = provides ? pinned : newest;
    const bool current = replica.version == target && replica.loading == 0;
    rollouts.SetEnabled(slot.worker, current && target == newest && target != 0);
    rollouts.SetVersion(slot.worker, replica.loading == 0 ? replica.version : 0);
    // A worker that still generates loads once it is idle: a response is of one version.
    const bool idle = replica.loading == 0 && rollouts.load(slot.worker) == 0;
    if (current || !idle || !may_load || target == 0) continue;
    if (!relays.IsAt(slot.worker, target, roster)) continue;
    replica.loading = target;
    rollouts.SetVersion(slot.worker, 0);
    slot.since = out.now();
    slot.attempt = out.NextAttempt(slot.attempt);
    StartTask task;
    task.worker = slot.worker;
    task.args.role = slot.role;
    task.args.policy_version = target;
    task.args.deadline = deadline;
    task.ref = out.Ref(TaskKind::kLoadWeights, index, slot.attempt);
    out.Do(std::move(task));
  }
}

}  // namespace baton::controller
