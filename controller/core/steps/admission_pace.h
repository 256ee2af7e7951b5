// Pace of admission: the distance ahead of the trainer at which rollouts need to begin prompt
// groups.
//
// Owns two measurements: a group takes G seconds from its beginning until it is complete, and the
// trainer takes U seconds for a step, without its wait for the batch. G is the mean of the groups
// plus two standard deviations, and the smallest such value of the newest steps: groups take longer
// when more of them are under way, which is no reason to begin still more. A group that is begun G
// / U updates before its batch is complete in time. A group that is begun earlier only gets older:
// the weights change only at the end of an update, so what counts is in which update it begins.
//
//   a       = G / U + margin
//   updates = ceil(a), or 0 if a / (a + 1) is at most 0.15
//
// a / (a + 1) is the share of a step that the trainer waits if a batch begins only with the newest
// weights. Where it is small, the trainer is what limits the job, and responses that are an update
// older would cost more than that wait: the first steps of a short job teach most.
//
// Before U is measured it is 0, as in mode sync: the first two batches begin with the newest
// weights.
//
//   trainer    wait      update 1   wait      update 2   update 3
//   rollouts   batch 1              batch 2   batch 3    batch 4
//   weights    1                    2         2          3           (G a little less than U)
//
// The margin corrects the estimate. It grows when the trainer had to wait for more than that share
// of four steps although rollouts had been held back. It shrinks slowly, and by one when a whole
// further batch was complete each time that a batch was taken, for more steps than a batch is under
// way: all of them could have begun an update later. So a G that is long only because too many
// groups are under way at once does not keep them there. Nothing is held back while the trainer
// takes much longer than it should: it may be gone, and rollouts go on meanwhile, as far as
// max_staleness allows.
//
// Derived state: a restarted controller measures G and U again, and begins with the rules above. A
// step whose update began under the earlier controller is not measured.
#ifndef BATON_CONTROLLER_CORE_STEPS_ADMISSION_PACE_H_
#define BATON_CONTROLLER_CORE_STEPS_ADMISSION_PACE_H_

#include <cstdint>
#include <deque>
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
  /// A batch was taken, and `more` whole batches were complete besides.
  void NoteBatch(uint64_t more);
  /// The update under way began before this controller did, so its step cannot be measured.
  void NoteRestoredUpdate() { partial_ = true; }
  /// A step ended, in which the trainer worked for `busy` and waited for responses for `idle`.
  void NoteStep(absl::Duration busy, absl::Duration idle, absl::Time now);
  /// Rollouts had room, and only Updates held them back.
  void NoteHeldBack() { waits_.held_back = true; }

  /// True if a step was measured.
  bool measured() const { return steps_ > 0; }
  /// The number of updates before its batch at which a group may begin. Pure.
  uint64_t Updates(absl::Time now) const;

 private:
  // What the trainer did in the newest steps, which are judged together.
  struct Waits {
    absl::Duration busy, idle;
    bool held_back = false;
    int steps = 0;
  };

  bool Waited(absl::Duration busy, absl::Duration idle);
  double GroupSeconds() const;
  double Needed() const;

  // Sums over groups; older groups count less and less.
  double groups_ = 0, seconds_ = 0, squares_ = 0;
  std::deque<double> newest_;  // G by these sums at the end of each of the newest steps
  double update_ = 0;          // U
  uint64_t steps_ = 0;         // measured; U is their mean, the newer ones count more
  double margin_ = 0;          // in updates
  Waits waits_;
  int early_steps_ = 0;   // the newest steps at whose batch a further one was complete
  bool partial_ = false;  // this step is not measured
  absl::Time step_began_ = absl::InfiniteFuture();
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_ADMISSION_PACE_H_
