// Time that never jumps back, and that goes on while the machine sleeps.
#ifndef BATON_SDK_COMMON_BASE_CLOCK_H_
#define BATON_SDK_COMMON_BASE_CLOCK_H_

#include <time.h>

#include <atomic>
#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace baton {

/// Time since the machine started, sleep included (CLOCK_BOOTTIME). A lease must run on it: on the
/// steady clock a machine that slept would believe that no time has passed, while its lease ended
/// elsewhere. A clock of <chrono>; thread-safe.
struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;
  static time_point now() noexcept {
    timespec time{};
    ::clock_gettime(CLOCK_BOOTTIME, &time);
    return time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }
};

/// The clock that measures deadlines and durations inside a process: the wall clock may be set, and
/// the steady clock stands still while the machine sleeps. Compare it with other values of this
/// function alone; its date means nothing.
inline absl::Time BootNow() {
  return absl::UnixEpoch() + absl::FromChrono(BootClock::now().time_since_epoch());
}

/// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Wall time of the clock's creation plus the time since on BootClock: good for leases and for
  /// people.
  virtual absl::Time Now() const = 0;
};

class RealClock : public Clock {
 public:
  absl::Time Now() const override { return wall_ + absl::FromChrono(BootClock::now() - start_); }

 private:
  const absl::Time wall_ = absl::Now();
  const BootClock::time_point start_ = BootClock::now();
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

#endif  // BATON_SDK_COMMON_BASE_CLOCK_H_
