// Ports of a job and of the cluster: the observer of their turns.
#ifndef BATON_CONTROLLER_PORTS_TURN_OBSERVER_H_
#define BATON_CONTROLLER_PORTS_TURN_OBSERVER_H_

#include <string>

#include "baton/v1/worker_service.pb.h"
#include "controller/cluster/cluster_core.h"
#include "controller/core/loop/job_core.h"

namespace baton::controller {

/// Sees the events and effects of the cores, for simulators that check rules. It changes nothing.
/// Production has none. Called on the job's strand; `core` is one object for the job's life.
class TurnObserver {
 public:
  virtual ~TurnObserver() = default;

  /// A worker's result has come in; it may still be refused.
  virtual void OnResult(const JobCore& core, const std::string& worker, const TaskRef& ref,
                        const v1::TaskResult& result) = 0;
  /// `core` is about to handle `event`.
  virtual void OnEvent(const JobCore& core, const Event& event) = 0;
  /// `core` has handled an event, or has started. None of the `effects` has left.
  virtual void OnTurn(const JobCore& core, const Effects& effects) = 0;
  /// `effect` leaves now: the rows of its turn are committed.
  virtual void OnEffect(const JobCore& core, const Effect& effect) = 0;

  /// Called on the cluster's strand: the effects of an event or of a turn leave now.
  virtual void OnCluster(const ClusterEffects& effects) = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_PORTS_TURN_OBSERVER_H_
