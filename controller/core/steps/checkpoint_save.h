// State of a checkpoint's completion on disk: whether it is under way, and since when.
#ifndef BATON_CONTROLLER_CORE_STEPS_CHECKPOINT_SAVE_H_
#define BATON_CONTROLLER_CORE_STEPS_CHECKPOINT_SAVE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "controller/core/job/wait_list.h"

namespace baton::controller {

class CheckpointSave {
 public:
  /// The ranks have written their parts, and the controller completes it.
  bool committing() const { return committing_; }
  void Begin(absl::Time now) {
    committing_ = true;
    since_ = now;
  }
  /// The checkpoint is complete, or useless because the job goes back.
  void End() { committing_ = false; }

  /// DEADLINE_EXCEEDED once completing takes longer than `limit`; then it is given up.
  absl::Status CheckDeadline(int64_t step, absl::Time now, absl::Duration limit) {
    if (!committing_ || now - since_ <= limit) return absl::OkStatus();
    committing_ = false;
    return absl::DeadlineExceededError(
        absl::StrCat("the checkpoint of step ", step, " was not completed within ",
                     absl::FormatDuration(limit), "; check the disk of the data root"));
  }
  /// Nothing could move for `duration`, so that time counts towards no deadline.
  void Delay(absl::Duration duration, absl::Time now) { DelayTime(duration, now, since_); }
  void Explain(int64_t step, absl::Duration limit, WaitList& waits) const {
    if (!committing_) return;
    waits.Add("checkpoint", absl::StrCat("step ", step), "the checkpoint to be completed on disk",
              since_, limit, "the job fails");
  }

 private:
  bool committing_ = false;
  absl::Time since_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_CHECKPOINT_SAVE_H_
