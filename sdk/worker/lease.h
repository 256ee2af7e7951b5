// The lease of a worker: how long it may act without an acknowledged heartbeat.
#ifndef BATON_SDK_WORKER_LEASE_H_
#define BATON_SDK_WORKER_LEASE_H_

#include <cstdint>
#include <map>
#include <optional>

#include "sdk/common/base/clock.h"

namespace baton {

/// Pure, for one thread at a time. The lease counts from when the worker *sent* the acknowledged
/// message, so it always ends for the worker before it ends for the controller.
class Lease {
 public:
  using Time = BootClock::time_point;
  using Duration = BootClock::duration;

  /// The controller accepted a Hello that was sent at `hello_sent`.
  void Begin(Duration lease, Time hello_sent);
  /// Returns the heartbeat's number.
  uint64_t SendHeartbeat(Time now);
  /// Renews the lease, unless the heartbeat was sent after the lease's end (because the machine
  /// slept). Unknown numbers are ignored; older ones never shorten the lease.
  void Acknowledge(uint64_t sequence);
  /// The connection is lost: outstanding heartbeats will not be acknowledged.
  void Disconnect() { sent_.clear(); }
  /// The worker has fenced itself, so it holds nothing under a lease.
  void End() { end_.reset(); }

  /// Whether the worker may act at `now`.
  bool Holds(Time now) const { return end_.has_value() && now < *end_; }
  /// The time at which the worker must fence itself; absent: it holds nothing under a lease.
  std::optional<Time> end() const { return end_; }

 private:
  Duration length_{};
  uint64_t next_ = 1;
  std::map<uint64_t, Time> sent_;
  std::optional<Time> end_;
};

}  // namespace baton

#endif  // BATON_SDK_WORKER_LEASE_H_
