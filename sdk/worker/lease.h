// How long a worker may still act without news from the controller.
#ifndef BATON_SDK_WORKER_LEASE_H_
#define BATON_SDK_WORKER_LEASE_H_

#include <cstdint>
#include <map>
#include <optional>

#include "sdk/base/clock.h"

namespace baton {

/// Pure; one thread at a time. The lease counts from when the worker *sent* what the controller
/// acknowledged, so it always ends here before it ends there.
class Lease {
 public:
  using Time = BootClock::time_point;
  using Duration = BootClock::duration;

  /// The controller accepted a Hello that was sent at `hello_sent`.
  void Begin(Duration lease, Time hello_sent);
  /// Returns the heartbeat's number.
  uint64_t SendHeartbeat(Time now);
  /// Renews the lease, unless the heartbeat was sent after its end (the machine slept meanwhile);
  /// unknown numbers are ignored, older ones never shorten it.
  void Acknowledge(uint64_t sequence);
  /// The connection is gone: heartbeats on their way will not be acknowledged.
  void Disconnect() { sent_.clear(); }
  /// There is nothing left to lose (the worker fenced itself).
  void End() { end_.reset(); }

  /// It may act at `now`.
  bool Holds(Time now) const { return end_.has_value() && now < *end_; }
  /// When the worker must fence itself; absent: it holds nothing under a lease.
  std::optional<Time> end() const { return end_; }

 private:
  Duration length_{};
  uint64_t next_ = 1;
  std::map<uint64_t, Time> sent_;
  std::optional<Time> end_;
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_LEASE_H_
