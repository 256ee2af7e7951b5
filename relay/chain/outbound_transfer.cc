#include "relay/chain/outbound_transfer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace baton::relay {

absl::Status OutboundTransfer::Resume(uint64_t verified_there) {
  if (verified_there > size_bytes_) {
    return absl::OutOfRangeError(absl::StrCat("the receiver goes on at ", verified_there,
                                              " of a version of ", size_bytes_, " bytes"));
  }
  sent_ = acknowledged_ = verified_there;
  running_ = true;
  return absl::OkStatus();
}

void OutboundTransfer::Extend(uint64_t verified_here) {
  available_ = std::max(available_, std::min(verified_here, size_bytes_));
}

absl::Status OutboundTransfer::Acknowledge(uint64_t verified_there) {
  if (verified_there > sent_) {
    return absl::OutOfRangeError(absl::StrCat("the receiver acknowledges ", verified_there,
                                              " bytes, and ", sent_, " were sent"));
  }
  acknowledged_ = std::max(acknowledged_, verified_there);
  return absl::OkStatus();
}

std::optional<Chunk> OutboundTransfer::Next() {
  if (!running_ || sent_ == size_bytes_) return {};
  const uint64_t size = std::min(chunk_bytes_, size_bytes_ - sent_);
  if (sent_ > available_ || size > available_ - sent_) return {};
  if (in_flight() > 0 && in_flight() + size > window_bytes_) return {};
  const Chunk chunk{sent_, size};
  sent_ += size;
  return chunk;
}

}  // namespace baton::relay
