// Idle times of a job's trainer and rollouts since the last step.
//
// Owns the sums since the last step was done, and the load since the last turn of the core: between
// two turns nothing begins and nothing ends. Derived state: it begins anew after a restart.
#ifndef BATON_CONTROLLER_CORE_STEPS_IDLE_CLOCK_H_
#define BATON_CONTROLLER_CORE_STEPS_IDLE_CLOCK_H_

#include <map>
#include <string>

#include "absl/time/time.h"

namespace baton::controller {

class IdleClock {
 public:
  /// The parts of the job that have work. Rollouts that share their workers with other roles are
  /// left out: while those roles work, the worker is not idle.
  struct Load {
    bool runs = false;          ///< The job runs; time in a queue or a pause does not count.
    bool trainer_idle = false;  ///< The trainer waits for responses, and scores none.
    int rollouts = 0;           ///< Attached rollouts that have taken on their role.
    int loading = 0;            ///< Of these: load weights, and run no response.
    int resting = 0;            ///< Of these: run no response for any other reason.
  };

  /// Adds the time from the last call until `now`, in which the load was the one last noted.
  void Advance(absl::Time now);
  /// Sets the load from the last Advance on.
  void Note(const Load& load) { load_ = load; }
  /// A step is done: the sums begin anew.
  void BeginStep();
  /// idle/trainer, idle/rollouts (for any reason), idle/rollouts_loading, each from 0 to 1; those
  /// of rollouts are shares of the time of all rollouts together. Shares of no time are left out.
  std::map<std::string, double> Shares() const;
  /// Time in which the trainer waited for responses.
  absl::Duration trainer_idle() const { return trainer_idle_; }
  /// Time in which it did anything else: the time of a queue or a pause is in neither.
  absl::Duration trainer_busy() const { return time_ - trainer_idle_; }

 private:
  Load load_;
  absl::Time counted_ = absl::InfinitePast();  // the sums reach up to here
  absl::Duration time_, trainer_idle_;
  absl::Duration rollouts_, loading_, resting_;  // times of all rollouts, added up
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_IDLE_CLOCK_H_
