// Ports of a job: who watches its turns.
#ifndef BATON_CONTROLLER_PORTS_TURN_OBSERVER_H_
#define BATON_CONTROLLER_PORTS_TURN_OBSERVER_H_

#include "controller/core/job_core.h"

namespace baton::controller {

/// Sees what a job's core hears and wants, for simulators that check rules. It changes nothing.
/// Production has none. Called on the job's strand; `core` is one object for the job's life.
class TurnObserver {
 public:
  virtual ~TurnObserver() = default;

  /// `core` is about to handle `event`.
  virtual void OnEvent(const JobCore& core, const Event& event) = 0;
  /// `core` has handled an event, or has started. None of the `effects` has left.
  virtual void OnTurn(const JobCore& core, const Effects& effects) = 0;
  /// `effect` leaves now: the rows of its turn are committed.
  virtual void OnEffect(const JobCore& core, const Effect& effect) = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_PORTS_TURN_OBSERVER_H_
