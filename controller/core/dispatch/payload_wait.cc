#include "controller/core/dispatch/payload_wait.h"

#include "absl/strings/str_cat.h"

namespace baton::controller {
namespace {

// The runtime looks at every tick, and after every write, whether there is room.
constexpr absl::Duration kLooksAgain = absl::Seconds(1);

}  // namespace

void PayloadWait::Heard(const PayloadsWait& event, absl::Time now) {
  if (!event.waits) return wait_.reset();
  if (!wait_.has_value()) wait_ = Wait{event, now};
}

void PayloadWait::Explain(const std::string& work, WaitList& waits) const {
  if (!wait_.has_value()) return;
  const PayloadsWait& event = wait_->event;
  waits.Add(
      "payloads", work,
      absl::StrCat("the experience log to take ", event.bytes, " bytes of responses and columns; ",
                   event.budget, " bytes may wait for it (baton-controller ",
                   event.of_job ? "--job-payload-bytes)" : "--payload-bytes, for all jobs)"),
      wait_->since, waits.now() + kLooksAgain - wait_->since,
      "Baton looks again whether there is room; no prompt is begun until the disk of the "
      "data root has taken them, and nothing is lost");
}

}  // namespace baton::controller
