// Pace of admission: the distance ahead of the trainer at which rollouts need to begin prompt
// groups.
//
// Owns two measurements: a group takes G seconds from its beginning until it is complete, and the
// trainer takes U seconds for a step, without its wait for the batch. A group that is begun G / U
// updates before its batch is complete in time. A group that is begun earlier only gets older.
//
//   updates = ceil((mean of G + 2 standard deviations) / U + margin), at least 1
//
// The margin corrects the estimate: it grows when the trainer had to wait although rollouts had
// been held back, and shrinks slowly. Nothing is held back while nothing is known, and while the
// trainer takes much longer than it should: it may be gone, and rollouts go on meanwhile, as far as
// max_staleness allows.
#ifndef BATON_CONTROLLER_CORE_STEPS_ADMISSION_PACE_H_
#define BATON_CONTROLLER_CORE_STEPS_ADMISSION_PACE_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace baton::controller {

/// The numbers that decide whether one more group may begin.
struct AdmissionBound {
  uint64_t max_staleness = 0;      ///< Updates that a response may be behind when it is consumed.
  uint64_t batch = 1;              ///< Groups that an update consumes; at least 1.
  uint64_t ahead = 0;              ///< Groups begun and not consumed; those in a batch count.
  std::optional<uint64_t> behind;  ///< Updates since the weights it would be made by; if known.
};

/// The group can be consumed within the bound: the groups ahead of it are consumed by `ahead /
/// batch` updates, and each of them makes the group's weights older by one. (AReaL, arXiv
/// 2505.24298, section 5.1, bounds the same with the number of groups ever begun in place of those
/// that are ahead; here a dropped group makes room again.) Pure.
inline bool MayBegin(const AdmissionBound& bound) {
  return bound.behind.has_value() &&
         *bound.behind + bound.ahead / bound.batch <= bound.max_staleness;
}

class AdmissionPace {
 public:
  /// More than any bound of staleness.
  static constexpr uint64_t kUnbounded = uint64_t{1} << 32;

  /// A group was complete `took` after its beginning.
  void NoteGroup(absl::Duration took);
  /// A step ended. It took `took`; `idle` is the share of that time in which the trainer had
  /// nothing to do, from 0 to 1.
  void NoteStep(absl::Duration took, double idle, absl::Time now);
  /// Rollouts had room, and only Updates held them back.
  void NoteHeldBack() { held_back_ = true; }

  /// The number of updates before its batch at which a group may begin.
  uint64_t Updates(absl::Time now) const;

 private:
  // Sums over groups; older groups count less and less.
  double groups_ = 0, seconds_ = 0, squares_ = 0;
  double update_ = 0;  // U; 0: it is not known
  double margin_ = 0;  // in updates
  bool held_back_ = false;
  absl::Time step_began_ = absl::InfiniteFuture();
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_ADMISSION_PACE_H_
