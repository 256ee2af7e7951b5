// The version of the weights that each rollout replica holds or loads, by slot.
//
//   unknown --Hold: its worker reports it--------> holds --Load--> loads --Loaded--> holds
//      ^                                                             |
//      +-- Forget: another worker, or the same one anew              +-- StopLoading: it failed
#ifndef BATON_CONTROLLER_CORE_WEIGHTS_REPLICA_WEIGHTS_H_
#define BATON_CONTROLLER_CORE_WEIGHTS_REPLICA_WEIGHTS_H_

#include <cstdint>
#include <map>

#include "absl/time/time.h"
#include "controller/core/dispatch/task_scheduler.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/roster.h"
#include "controller/core/weights/relay_versions.h"

namespace baton::controller {

class ReplicaWeights {
 public:
  /// The versions of a rollout slot's worker.
  struct Replica {
    uint64_t version = 0;  ///< Held; 0: none.
    uint64_t loading = 0;  ///< Being loaded; 0: none.
  };

  const Replica& Of(uint64_t slot) const;
  bool AnyLoading() const;
  /// The worker of `slot` holds `version`; 0: nothing.
  void Hold(uint64_t slot, uint64_t version);
  /// The worker of `slot` loads nothing (any more).
  void StopLoading(uint64_t slot);
  /// The slot has another worker, or the same one anew, whose version is not known.
  void Forget(uint64_t slot) { replicas_.erase(slot); }
  /// The worker of `slot` has loaded what it was loading.
  void Loaded(uint64_t slot);

  /// Lets each rollout that holds `served`, the newest published version, generate, and makes the
  /// others load it. `served` 0: no version is published, and each goes on with the version that it
  /// has. If waiting responses are pinned to an older version, one rollout keeps that version, or
  /// loads it if none has it. A rollout loads only what its host has. `may_load`: it is the
  /// rollouts' turn on their workers.
  void Load(uint64_t served, bool may_load, absl::Duration deadline, const RelayVersions& relays,
            Roster& roster, TaskScheduler& rollouts, EffectSink& out);

 private:
  bool SomeRolloutHas(uint64_t version, const Roster& roster) const;

  std::map<uint64_t, Replica> replicas_;  // by slot
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_WEIGHTS_REPLICA_WEIGHTS_H_
