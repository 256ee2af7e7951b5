// Tells watchers how far a phase is, five times a second at most.
//
// Owns what was told last. Progress is no event that is kept: a watcher that misses one loses
// nothing, so a phase that moves fast is told in jumps.
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
  /// `progress`: the phase of the job for people, with what of it is done.
  void Tell(Activity activity, const v1::Job& progress, EffectSink& out);

 private:
  absl::Time told_at_;
  int64_t told_ = -1;  // the phase, and how much of it was done, as one number
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_VIEWS_PROGRESS_FEED_H_
