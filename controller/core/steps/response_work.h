// Restoration of the work's trajectories after a restart, and reports received before recovery
// (ReportBuffer).
//
//   a restart --the data are read: trajectories of open work are made--> restored
//       ^                                                                   |
//       +-- the job ends: all work is given up -----------------------------+
//
// Stored responses are taken as they are. Tasks that workers still run or have just finished are
// assigned to their trajectories.
#ifndef BATON_CONTROLLER_CORE_STEPS_RESPONSE_WORK_H_
#define BATON_CONTROLLER_CORE_STEPS_RESPONSE_WORK_H_

#include <algorithm>
#include <cstdint>

#include "controller/core/steps/report_buffer.h"

namespace baton::controller {

class ResponseWork {
 public:
  /// True once the trajectories of all open work are restored.
  bool begun() const { return begun_; }
  void Begin() { begun_ = true; }
  void End() { begun_ = false; }
  ReportBuffer& reports() { return reports_; }
  const ReportBuffer& reports() const { return reports_; }

  /// The batch of the update to `step` is lost. Returns how often batches were lost without getting
  /// past this step.
  uint32_t LoseBatch(int64_t step) {
    if (step > lost_at_) lost_batches_ = 0;
    lost_at_ = std::max(lost_at_, step);
    return ++lost_batches_;
  }

 private:
  bool begun_ = false;
  uint32_t lost_batches_ = 0;  // of updates …
  int64_t lost_at_ = 0;        // … without getting past this step
  ReportBuffer reports_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_RESPONSE_WORK_H_
