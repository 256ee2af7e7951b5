// Pace of admission: how many updates ahead of its batch a prompt group begins.
//
// A group that begins a updates ahead may be a updates old when the trainer learns from it. That
// pays only where the trainer would wait otherwise. So the pace begins at a = 0, where each batch
// is made by the newest weights as in mode sync, and changes by one update at a time; a change
// stays only if it pays, by the seconds of the steps:
//
//   - Four steps are judged together. If the trainer waited for more than 15% of their time, and
//     rollouts had been held back, one update more is tried for four steps. If these are at least
//     10% shorter, the pace goes back for four steps. One update more stays if the steps with it
//     were at least 10% shorter than the mean of those before and after.
//   - Now and then one update less is tried in the same way. It stays unless the steps with it were
//     as much longer.
//   - What did not pay is tried again after 8 judgements, then after 16, 32, and 64.
//
// A job's steps become shorter or longer by themselves, as responses do. The steps before and after
// tell that from what a change did.
//
// The first a + 1 steps after a change are not judged: their batches had begun before it.
//
//   steps   1    2 3 4 5   6 7   8 9 10 11   12   13 14 15 16   17 …
//   a       0    0         1     1           0    0             1      if it pays
//                judged          judged           judged
//
// Rollouts that make more groups at once take longer for each, so neither the seconds of a group
// nor a wait of the trainer tell whether an update more would help. Only trying does.
//
// Nothing is held back while the trainer takes much longer than it should: it may be gone, and
// rollouts go on meanwhile, as far as max_staleness allows.
//
// Derived state: a restarted controller begins at 0 again. A step whose update began under the
// earlier controller is not judged.
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
  AdmissionPace();

  /// More than any bound of staleness.
  static constexpr uint64_t kUnbounded = uint64_t{1} << 32;

  /// The update under way began before this controller did, so its step cannot be judged.
  void NoteRestoredUpdate() { partial_ = true; }
  /// A step ended, in which the trainer worked for `busy` and waited for responses for `idle`.
  void NoteStep(absl::Duration busy, absl::Duration idle, absl::Time now);
  /// Rollouts had room, and only Updates held them back.
  void NoteHeldBack() { window_.held_back = true; }

  /// True once steps have been judged.
  bool judged() const { return judged_; }
  /// The number of updates before its batch at which a group may begin. Pure.
  uint64_t Updates(absl::Time now) const;

 private:
  // Steps that are judged together.
  struct Window {
    double busy = 0, idle = 0;  // seconds
    bool held_back = false;
    int steps = 0;

    double seconds() const { return busy + idle; }
  };
  // Of one direction: judgements until it is tried, and how many there will be after a failure.
  struct Rest {
    int left, next;
  };

  // A change that is being tried.
  struct Trial {
    int by = 0;              // 1, -1; 0: none is tried
    double before = 0;       // seconds of the window before it
    double tried = 0;        // … of the one with it
    bool went_back = false;  // the window after it comes next

    // `others`: seconds of a window without the change.
    bool Pays(double others) const;
  };

  void Judge(const Window& window);
  void JudgeTrial(const Window& window);
  void EndTrial(bool pays);
  void Try(int by, const Window& window);
  void Change(int by);

  uint64_t updates_ = 0;
  Trial trial_;
  Rest up_, down_;
  Window window_;
  int unjudged_ = 1;  // steps to come; the first one has the setup of the job
  double step_ = 0;   // seconds of a step; the newer ones count more
  bool measured_ = false, judged_ = false;
  bool partial_ = false;  // this step is not judged
  absl::Time step_began_ = absl::InfiniteFuture();
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_ADMISSION_PACE_H_
