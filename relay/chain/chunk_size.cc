#include "relay/chain/chunk_size.h"

#include <algorithm>
#include <cmath>

namespace baton::relay {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kTellingBytes = 1 << 20;  // fewer measure the start, not the pace
constexpr double kNewShare = 0.5;            // of a measurement, in the average

double Mix(double before, double now, bool measured) {
  return measured ? (1 - kNewShare) * before + kNewShare * now : now;
}

}  // namespace

void LinkCost::ObserveRoundTrip(absl::Duration time) {
  if (time <= absl::ZeroDuration()) return;
  startup_ = absl::Seconds(
      Mix(absl::ToDoubleSeconds(startup_), absl::ToDoubleSeconds(time) / 2, measured_startup_));
  measured_startup_ = true;
}

void LinkCost::ObserveTransfer(uint64_t bytes, absl::Duration time) {
  if (bytes < kTellingBytes || time <= absl::ZeroDuration()) return;
  seconds_per_byte_ = Mix(seconds_per_byte_,
                          absl::ToDoubleSeconds(time) / static_cast<double>(bytes), measured_pace_);
  measured_pace_ = true;
}

uint64_t ChunkBytes(int relays, uint64_t size_bytes, const LinkCost& cost) {
  const double startup = std::max(1e-9, absl::ToDoubleSeconds(cost.startup()));
  const double links_behind = std::max(0, relays - 2);
  const double chunks =
      std::sqrt(links_behind * static_cast<double>(size_bytes) * cost.seconds_per_byte() / startup);
  const double bytes =
      std::clamp(static_cast<double>(size_bytes) / std::max(1.0, chunks),
                 static_cast<double>(kLeastChunkBytes), static_cast<double>(kMostChunkBytes));
  return static_cast<uint64_t>(bytes) / kPageBytes * kPageBytes;
}

}  // namespace baton::relay
