// Whether a version travels faster as what differs from the one before.
#ifndef BATON_RELAY_DELTA_DELTA_CHOICE_H_
#define BATON_RELAY_DELTA_DELTA_CHOICE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace baton::relay {

/// How versions travel (weights.encoding of the job's spec).
enum class Encoding { kFull, kDelta, kAuto };

/// "full", "delta", "auto"; anything else is kFull, which every relay understands.
Encoding ParseEncoding(absl::string_view name);

/// Learns from the deltas of one job. Pure.
class DeltaChoice {
 public:
  /// A larger share of the version's bytes is not worth the work.
  static constexpr double kMostShare = 0.5;

  /// True if the next version's delta is to be made. kAuto: if making, sending and applying it is
  /// expected to take less time than sending the version, at `seconds_per_byte` of the link, by the
  /// deltas before; if these say no, one of kMostSkipped versions is tried all the same, unless
  /// the link is faster than any delta. After one that was too large, 1, 2, 4, … kMostSkipped
  /// versions are not tried.
  bool Tries(Encoding encoding, double seconds_per_byte);
  /// A delta was made in that time. `delta_bytes`: 0: it was too large, and is not sent.
  void Observe(uint64_t size_bytes, uint64_t delta_bytes, absl::Duration time);

  static constexpr int kMostSkipped = 16;

 private:
  // Until one was made: few values change in a step, and a core encodes 1 GB in a second.
  static constexpr double kFirstShare = 0.1, kFirstSecondsPerByte = 1e-9;
  double share_ = kFirstShare;
  double seconds_per_byte_ = kFirstSecondsPerByte;
  int skips_ = 0;     // after the last one that was too large
  int skipped_ = 0;   // so many more versions are not tried
  bool due_ = false;  // a try after skipped_, although deltas seem not to pay
};

}  // namespace baton::relay

#endif  // BATON_RELAY_DELTA_DELTA_CHOICE_H_
