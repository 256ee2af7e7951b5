#include "controller/core/views/progress_feed.h"

#include <utility>

namespace baton::controller {

void ProgressFeed::Tell(Activity activity, const v1::Job& progress, EffectSink& out) {
  const int64_t mark = progress.phase_done() * 16 + static_cast<int>(activity);
  if (mark == sent_ || out.now() - sent_at_ < absl::Milliseconds(200)) return;
  sent_ = mark;
  sent_at_ = out.now();
  v1::JobEvent event;
  event.set_type("progress");
  event.set_step(out.step());
  event.set_phase(progress.phase());
  event.set_phase_done(progress.phase_done());
  event.set_phase_total(progress.phase_total());
  out.Do(EmitEvent{std::move(event), false});
}

}  // namespace baton::controller
