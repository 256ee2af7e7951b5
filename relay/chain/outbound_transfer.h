// A version that a relay sends to the next one, perhaps while it still arrives here.
#ifndef BATON_RELAY_CHAIN_OUTBOUND_TRANSFER_H_
#define BATON_RELAY_CHAIN_OUTBOUND_TRANSFER_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "relay/chain/inbound_transfer.h"

namespace baton::relay {

/// Says which chunk goes next: only bytes that are here, and no more than a window beyond what the
/// receiver has acknowledged. Pure.
class OutboundTransfer {
 public:
  /// `window_bytes`: at least one chunk travels, whatever its size.
  OutboundTransfer(uint64_t size_bytes, uint64_t chunk_bytes, uint64_t window_bytes)
      : size_bytes_(size_bytes), chunk_bytes_(chunk_bytes), window_bytes_(window_bytes) {}

  /// The receiver has so many bytes, and takes the rest. Also after a new connection: what was on
  /// its way is sent anew. OUT_OF_RANGE: more than the version has.
  [[nodiscard]] absl::Status Resume(uint64_t verified_there);
  /// The connection broke: nothing goes until Resume.
  void Pause() { running_ = false; }
  /// So many bytes are verified here. Grows.
  void Extend(uint64_t verified_here);
  /// The receiver has verified so many bytes. Earlier answers are ignored. OUT_OF_RANGE: more than
  /// were sent.
  [[nodiscard]] absl::Status Acknowledge(uint64_t verified_there);

  /// The next chunk; nullopt: none may go now. A chunk is whole, but for the version's last one.
  std::optional<Chunk> Next();

  uint64_t acknowledged() const { return acknowledged_; }
  uint64_t in_flight() const { return sent_ - acknowledged_; }
  bool complete() const { return acknowledged_ == size_bytes_; }

 private:
  const uint64_t size_bytes_;
  const uint64_t chunk_bytes_;
  const uint64_t window_bytes_;
  bool running_ = false;
  uint64_t available_ = 0;
  uint64_t sent_ = 0;
  uint64_t acknowledged_ = 0;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_CHAIN_OUTBOUND_TRANSFER_H_
