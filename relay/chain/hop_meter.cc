#include "relay/chain/hop_meter.h"

namespace baton::relay {

void HopMeter::Announce(const std::string& segment_id, absl::Time now) {
  if (segment_id == segment_id_) return;
  segment_id_ = segment_id;
  announced_ = now;
  sent_bytes_ = 0;
  busy_ = absl::ZeroDuration();
  busy_since_ = absl::InfiniteFuture();
}

void HopMeter::Busy(bool busy, absl::Time now) {
  if (busy_since_ != absl::InfiniteFuture()) busy_ += now - busy_since_;
  busy_since_ = busy ? now : absl::InfiniteFuture();
}

void HopMeter::Arrived(uint64_t version, uint64_t size_bytes, absl::Time now) {
  Busy(false, now);
  last_ = {version, size_bytes, sent_bytes_, now - announced_, busy_};
}

}  // namespace baton::relay
