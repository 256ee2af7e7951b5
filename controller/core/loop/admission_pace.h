// How far ahead of its trainer an async job's rollouts need to be.
//
// Owns what was measured: a group takes G seconds from its draw until it is complete, and the
// trainer takes U seconds for a step, without its wait for the batch. A group that is begun G / U
// updates before its batch is complete in time. One that is begun earlier only gets older.
//
//   updates = ceil((mean of G + 2 standard deviations) / U + margin), at least 1
//
// The margin corrects the estimate: it grows when the trainer had to wait although rollouts had
// been held back, and shrinks slowly. Nothing is held back while nothing is known, and while the
// trainer takes much longer than it should: it may be gone, and rollouts go on meanwhile, as far as
// max_staleness allows.
#ifndef BATON_CONTROLLER_CORE_LOOP_ADMISSION_PACE_H_
#define BATON_CONTROLLER_CORE_LOOP_ADMISSION_PACE_H_

#include <cstdint>

#include "absl/time/time.h"

namespace baton::controller {

class AdmissionPace {
 public:
  /// More than any bound of staleness.
  static constexpr uint64_t kUnbounded = uint64_t{1} << 32;

  /// A group was complete so long after its draw.
  void NoteGroup(absl::Duration took);
  /// A step ended. It took `took`; `idle` is the share of that time in which the trainer had
  /// nothing to do, from 0 to 1.
  void NoteStep(absl::Duration took, double idle, absl::Time now);
  /// Rollouts had room, and Updates alone held them back.
  void NoteHeldBack() { held_back_ = true; }

  /// A group may be begun so many updates before the batch that consumes it.
  uint64_t Updates(absl::Time now) const;

 private:
  // Of groups; older ones count less and less.
  double groups_ = 0, seconds_ = 0, squares_ = 0;
  double update_ = 0;  // U; 0: it is not known
  double margin_ = 0;  // in updates
  bool held_back_ = false;
  absl::Time step_began_ = absl::InfiniteFuture();
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_ADMISSION_PACE_H_
