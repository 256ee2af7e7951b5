#include "controller/core/workers/room_wait.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

namespace baton::controller {

void RoomWait::Begin(const TaskDone& event, absl::Duration retry, EffectSink& out) {
  const std::string message(event.status.message());
  // The job tries every few seconds: its user is told of the first try alone.
  if (!wait_.has_value()) {
    out.Warn(absl::StrCat("worker ", event.worker, " has no space to ", MethodName(event.ref.kind),
                          ": ", message, "; it tries again until there is space"));
  }
  const absl::Time since = wait_.has_value() ? wait_->since : out.now();
  wait_ = Wait{event.ref.kind, message, since, out.now() + retry};
}

void RoomWait::Explain(int64_t step, WaitList& waits) const {
  if (!wait_.has_value()) return;
  waits.Add("space", absl::StrCat("step ", step + 1),
            absl::StrCat("room to ", MethodName(wait_->kind), ": ", wait_->message), wait_->since,
            std::max(waits.now(), wait_->retry) - wait_->since,
            "Baton tries again; free some space there, nothing is lost");
}

}  // namespace baton::controller
