// Record of heartbeats, written on the threads on which they arrive.
//
// A heartbeat must not wait: the thread that reads it records it here and answers. Before each
// event of ClusterCore, the cluster's strand takes the recorded heartbeats over, with their times.
// Thread-safe.
#ifndef BATON_CONTROLLER_RUNTIME_CLUSTER_LEASE_TABLE_H_
#define BATON_CONTROLLER_RUNTIME_CLUSTER_LEASE_TABLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "sdk/common/base/clock.h"

namespace baton::controller {

class LeaseTable {
 public:
  /// `clock` outlives this.
  LeaseTable(const Clock* clock, absl::Duration lease) : clock_(clock), lease_(lease) {}

  /// Since `now`, `session` is the worker's stream. An earlier session renews nothing any more.
  void Begin(const std::string& worker, uint64_t session, absl::Time now) {
    absl::MutexLock lock(&mu_);
    uint64_t& current = sessions_[worker];
    leases_.erase(current);
    current = session;
    leases_[session] = {worker, now + lease_, absl::InfinitePast()};
  }

  /// The stream ended.
  void End(uint64_t session) {
    absl::MutexLock lock(&mu_);
    const auto it = leases_.find(session);
    if (it == leases_.end()) return;
    sessions_.erase(it->second.worker);
    leases_.erase(it);
  }

  /// False: the lease has ended, or a newer stream has replaced this one.
  [[nodiscard]] bool Renew(uint64_t session) {
    absl::MutexLock lock(&mu_);
    // read under the lock, so that it is not earlier than what Take has taken
    const absl::Time now = clock_->Now();
    const auto it = leases_.find(session);
    if (it == leases_.end() || it->second.end <= now) return false;
    it->second.end = now + lease_;
    if (it->second.renewed == absl::InfinitePast()) renewed_.push_back(session);
    it->second.renewed = now;
    return true;
  }

  /// The sessions that were renewed since the last call, with the time of the last renewal.
  std::vector<std::pair<uint64_t, absl::Time>> Take() {
    std::vector<std::pair<uint64_t, absl::Time>> taken;
    absl::MutexLock lock(&mu_);
    for (const uint64_t session : std::exchange(renewed_, {})) {
      const auto it = leases_.find(session);
      if (it == leases_.end()) continue;
      taken.emplace_back(session, std::exchange(it->second.renewed, absl::InfinitePast()));
    }
    return taken;
  }

 private:
  struct Lease {
    std::string worker;
    absl::Time end;
    absl::Time renewed;  // InfinitePast: not renewed since Take
  };
  const Clock* const clock_;
  const absl::Duration lease_;
  absl::Mutex mu_;
  std::map<std::string, uint64_t> sessions_ ABSL_GUARDED_BY(mu_);  // by worker: the newest
  std::map<uint64_t, Lease> leases_ ABSL_GUARDED_BY(mu_);
  std::vector<uint64_t> renewed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CLUSTER_LEASE_TABLE_H_
