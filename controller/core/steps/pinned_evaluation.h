// The evaluation under way: one version of the weights responds to the validation prompts.
//
// Owns which weights are evaluated, and how many prompts are begun. The evaluation is pinned: its
// responses are of one version, even while the trainer makes newer ones.
//
// clang-format off
//   none --Begin--> prompts are begun as rollouts have room --all READY--> none
//     ^                               |
//     +-------------------------------+ the version is lost, or the job goes back before it:
//                                       the evaluation is due again
// clang-format on
#ifndef BATON_CONTROLLER_CORE_STEPS_PINNED_EVALUATION_H_
#define BATON_CONTROLLER_CORE_STEPS_PINNED_EVALUATION_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/core/job/trajectory.h"

namespace baton::controller {

class PinnedEvaluation {
 public:
  void Restore(const store::v1::JobRow& row) { row_ = row.evaluation(); }
  /// Sets evaluation.
  void Save(store::v1::JobRow* row) const {
    if (active()) *row->mutable_evaluation() = row_;
  }

  void Begin(Pin pin, uint64_t first_uid, uint64_t trajectory_count, absl::Time now) {
    row_.set_version(pin.version);
    row_.set_step(pin.step);
    row_.set_first_uid(first_uid);
    row_.set_trajectory_count(trajectory_count);
    next_ = waits_for_ = 0;
    began_ = now;
  }
  void End() { row_.Clear(); }

  bool active() const { return row_.version() != 0; }
  Pin pin() const { return {row_.version(), row_.step()}; }
  bool Has(uint64_t trajectory_uid) const {
    return trajectory_uid >= row_.first_uid() &&
           trajectory_uid - row_.first_uid() < row_.trajectory_count();
  }

  /// Number of prompts that are not begun yet. Each prompt gets `samples` responses.
  uint64_t left(uint32_t samples) const { return active() ? prompts(samples) - next_ : 0; }
  /// Number of prompts in all.
  uint64_t prompts(uint32_t samples) const { return row_.trajectory_count() / samples; }
  /// The next prompt; left() is not 0. Sets the first trajectory uid of its responses.
  uint64_t NextPrompt(uint32_t samples, uint64_t* trajectory_uid) {
    *trajectory_uid = row_.first_uid() + next_ * samples;
    return next_++;
  }

  /// The first response that was not READY at the last check. 0: none is known.
  uint64_t waits_for() const { return waits_for_; }
  void WaitFor(uint64_t trajectory) { waits_for_ = trajectory; }

  /// When the evaluation began, or when a restarted controller went on with it.
  absl::Time began() const { return began_; }
  void GoOn(absl::Time now) { began_ = now; }
  std::string name() const { return absl::StrCat("the evaluation of step ", row_.step()); }

 private:
  store::v1::EvaluationRow row_;  // version 0: there is none
  uint64_t next_ = 0;             // prompt
  uint64_t waits_for_ = 0;
  absl::Time began_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_PINNED_EVALUATION_H_
