#include "relay/delta/delta_choice.h"

#include <algorithm>

namespace baton::relay {
namespace {

// Applying a delta takes about half as long as making it, on each host at the same time.
constexpr double kApplyOverEncode = 0.5;

}  // namespace

Encoding ParseEncoding(absl::string_view name) {
  if (name == "delta") return Encoding::kDelta;
  return name == "auto" ? Encoding::kAuto : Encoding::kFull;
}

bool DeltaChoice::Tries(Encoding encoding, double seconds_per_byte) {
  if (encoding == Encoding::kFull) return false;
  if (skipped_ > 0) {
    --skipped_;
    return false;
  }
  if (encoding == Encoding::kDelta) return true;
  const auto pays = [&](double share, double encoding_per_byte) {
    const double delta = (1 + kApplyOverEncode) * encoding_per_byte + share * seconds_per_byte;
    return delta < seconds_per_byte;
  };
  if (!pays(kFirstShare, kFirstSecondsPerByte)) return false;
  if (pays(share_, seconds_per_byte_)) return true;
  // What was measured may have been a busy moment, so one is tried after a while.
  due_ = !due_;
  if (due_) skipped_ = kMostSkipped;
  return !due_;
}

void DeltaChoice::Observe(uint64_t size_bytes, uint64_t delta_bytes, absl::Duration time) {
  const auto bytes = static_cast<double>(std::max<uint64_t>(1, size_bytes));
  if (delta_bytes == 0) {  // the time is that of a part
    skips_ = std::clamp(2 * skips_, 1, kMostSkipped);
    skipped_ = skips_;
    return;
  }
  skips_ = 0;
  share_ = (share_ + static_cast<double>(delta_bytes) / bytes) / 2;
  seconds_per_byte_ = (seconds_per_byte_ + absl::ToDoubleSeconds(time) / bytes) / 2;
}

}  // namespace baton::relay
