// Heartbeats, taken in where they arrive.
//
// A heartbeat waits for nothing: the thread that reads it writes it down here and answers. The
// queue's strand carries what was written over to ClusterCore before each of its events, with the
// time at which it came. Thread-safe.
#ifndef BATON_CONTROLLER_RUNTIME_LEASE_BOOK_H_
#define BATON_CONTROLLER_RUNTIME_LEASE_BOOK_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "sdk/base/clock.h"

namespace baton::controller {

class LeaseBook {
 public:
  /// `clock` outlives the book.
  LeaseBook(const Clock* clock, absl::Duration lease) : clock_(clock), lease_(lease) {}

  /// `session` is the worker's stream since `now`; an earlier one renews nothing any more.
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

  /// False: the lease has ended, or another stream took this one's place.
  [[nodiscard]] bool Renew(uint64_t session) {
    absl::MutexLock lock(&mu_);
    const absl::Time now = clock_->Now();  // under the lock: after what Take has taken
    const auto it = leases_.find(session);
    if (it == leases_.end() || it->second.end <= now) return false;
    it->second.end = now + lease_;
    if (it->second.renewed == absl::InfinitePast()) renewed_.push_back(session);
    it->second.renewed = now;
    return true;
  }

  /// Sessions that were renewed since the last call, and when they were last.
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
    absl::Time renewed;  // InfinitePast: not since Take
  };
  const Clock* const clock_;
  const absl::Duration lease_;
  absl::Mutex mu_;
  std::map<std::string, uint64_t> sessions_ ABSL_GUARDED_BY(mu_);  // by worker: the newest
  std::map<uint64_t, Lease> leases_ ABSL_GUARDED_BY(mu_);
  std::vector<uint64_t> renewed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_LEASE_BOOK_H_
