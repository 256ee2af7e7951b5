// Feed of a phase's progress to watchers, at most five times a second.
//
// Owns the progress that was sent last. Progress events are not kept: a watcher that misses one
// loses nothing, so a fast phase is reported in jumps.
#ifndef BATON_CONTROLLER_CORE_VIEWS_PROGRESS_FEED_H_
#define BATON_CONTROLLER_CORE_VIEWS_PROGRESS_FEED_H_

#include <cstdint>

#include "absl/time/time.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/job/activities.h"
#include "controller/core/job/effect_sink.h"

namespace baton::controller {

class ProgressFeed {
 public:
  /// `progress`: the phase of the job for people, with how much of it is done.
  void Tell(Activity activity, const v1::Job& progress, EffectSink& out);

 private:
  absl::Time sent_at_;
  int64_t sent_ = -1;  // the phase, and how much of it was done, as one number
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_VIEWS_PROGRESS_FEED_H_
