// How large the chunks of a version are that travels down a chain of relays.
#ifndef BATON_RELAY_CHAIN_CHUNK_SIZE_H_
#define BATON_RELAY_CHAIN_CHUNK_SIZE_H_

#include <cstdint>

#include "absl/time/time.h"

namespace baton::relay {

inline constexpr uint64_t kLeastChunkBytes = 64 << 10;
inline constexpr uint64_t kMostChunkBytes = 16 << 20;

/// What a link was measured to cost. A chunk of b bytes takes startup + b * per_byte.
class LinkCost {
 public:
  /// A small message and its answer.
  void ObserveRoundTrip(absl::Duration time);
  /// Bytes of one version, sent at the pace of the link. Ignored when too few to tell.
  void ObserveTransfer(uint64_t bytes, absl::Duration time);

  absl::Duration startup() const { return startup_; }
  double seconds_per_byte() const { return seconds_per_byte_; }

 private:
  // Until something is measured: 10 Gbit/s inside a datacentre.
  absl::Duration startup_ = absl::Microseconds(100);
  double seconds_per_byte_ = 0.8e-9;
  bool measured_startup_ = false, measured_pace_ = false;
};

/// For `relays` in a chain, the first one included, and a version of `size_bytes`.
///
/// With p relays and k chunks the last byte arrives after T = (p + k - 2)(T_s + M T_b / k): a
/// pipeline of p - 1 links. T is least for k = sqrt((p - 2) M T_b / T_s). In [kLeastChunkBytes,
/// kMostChunkBytes], whole pages.
uint64_t ChunkBytes(int relays, uint64_t size_bytes, const LinkCost& cost);

}  // namespace baton::relay

#endif  // BATON_RELAY_CHAIN_CHUNK_SIZE_H_
