// Time that never jumps back.
#ifndef BATON_SDK_BASE_CLOCK_H_
#define BATON_SDK_BASE_CLOCK_H_

#include <atomic>
#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace baton {

/// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Wall time of the clock's creation plus the monotonic time since: good for leases and for
  /// people.
  virtual absl::Time Now() const = 0;
};

class RealClock : public Clock {
 public:
  absl::Time Now() const override {
    return wall_ + absl::FromChrono(std::chrono::steady_clock::now() - steady_);
  }

 private:
  const absl::Time wall_ = absl::Now();
  const std::chrono::steady_clock::time_point steady_ = std::chrono::steady_clock::now();
};

/// Moves only when told. For tests.
class FakeClock : public Clock {
 public:
  absl::Time Now() const override { return absl::FromUnixMicros(micros_); }
  void Advance(absl::Duration d) { micros_ += absl::ToInt64Microseconds(d); }

 private:
  std::atomic<int64_t> micros_{1700000000000000};
};

}  // namespace baton

#endif  // BATON_SDK_BASE_CLOCK_H_
