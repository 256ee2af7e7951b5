// How a version goes over the link to the next relay: bytes and times.
#ifndef BATON_RELAY_CHAIN_HOP_METER_H_
#define BATON_RELAY_CHAIN_HOP_METER_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace baton::relay {

/// A version that a link has brought to the next relay, where it then was visible.
struct ChainHop {
  uint64_t version = 0;  ///< 0: none.
  uint64_t size_bytes = 0;
  uint64_t sent_bytes = 0;   ///< Fewer as a delta, or where some of it was there.
  absl::Duration time;       ///< Since it was announced.
  absl::Duration link_time;  ///< Of that, while chunks were on their way.
};

/// Measures one version after the other. Pure: each call brings its time.
class HopMeter {
 public:
  /// A version is announced. Again, after a connection broke: its measurement goes on.
  void Announce(const std::string& segment_id, absl::Time now);
  void Sent(uint64_t bytes) { sent_bytes_ += bytes; }
  /// Whether chunks are on their way from now on.
  void Busy(bool busy, absl::Time now);
  /// The version is visible at the next relay.
  void Arrived(uint64_t version, uint64_t size_bytes, absl::Time now);

  const ChainHop& last() const { return last_; }

 private:
  std::string segment_id_;
  absl::Time announced_;
  uint64_t sent_bytes_ = 0;
  absl::Duration busy_;
  absl::Time busy_since_ = absl::InfiniteFuture();  ///< Infinite: nothing is on its way.
  ChainHop last_;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_CHAIN_HOP_METER_H_
