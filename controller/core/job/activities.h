// The activity of a job, and when it began.
//
// One activity runs at a time: each step begins with the weights that the previous step made, so
// the next activity cannot begin before the last one is done.
//
//   set up -> publish -> [evaluate] -> [save] -> generate -> batch -> update --+
//               ^                                                              |
//               +--------------------------------------------------------------+
//
// Nothing here says what comes next: StepLoop asks each activity whether it is due.
#ifndef BATON_CONTROLLER_CORE_JOB_ACTIVITIES_H_
#define BATON_CONTROLLER_CORE_JOB_ACTIVITIES_H_

#include "absl/time/time.h"
#include "controller/core/job/wait_list.h"

namespace baton::controller {

enum class Activity {
  kNone,      ///< Nothing: the job waits for room, begins, or gives its workers back.
  kSetUp,     ///< It waits for workers, their roles and the data.
  kPublish,   ///< The rollouts are given the newest weights.
  kGenerate,  ///< Responses of a step are made and scored.
  kBatch,     ///< The batch is built, and advantages are computed.
  kUpdate,    ///< The roles that train learn from the batch.
  kEvaluate,  ///< Responses of an evaluation are made and scored.
  kSave,      ///< A checkpoint is written.
};

class Activities {
 public:
  Activity current() const { return current_; }
  bool Is(Activity activity) const { return current_ == activity; }
  /// Responses are made and scored, for a step or for an evaluation.
  bool OnResponses() const { return Is(Activity::kGenerate) || Is(Activity::kEvaluate); }
  /// When the activity began.
  absl::Time since() const { return since_; }

  void Switch(Activity to, absl::Time now) {
    current_ = to;
    since_ = now;
  }
  /// Nothing could move for `duration`, so that time counts towards no deadline.
  void Delay(absl::Duration duration, absl::Time now) { DelayTime(duration, now, since_); }

 private:
  Activity current_ = Activity::kNone;
  absl::Time since_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_JOB_ACTIVITIES_H_
