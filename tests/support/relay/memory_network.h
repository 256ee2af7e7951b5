// Connections between relays in memory and in virtual time. From a seed, frames are late, are lost,
// come twice, and connections break.
#ifndef BATON_TESTS_SUPPORT_RELAY_MEMORY_NETWORK_H_
#define BATON_TESTS_SUPPORT_RELAY_MEMORY_NETWORK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "relay/transport/frame.h"
#include "relay/transport/transport.h"

namespace baton::relay {

/// Probabilities are those of one frame. A transport that keeps its contract loses nothing and
/// repeats nothing while its connection lasts; what stands on it must recover all the same.
struct NetworkFaults {
  double lost = 0;
  double twice = 0;
  double cut = 0;  ///< The connection breaks, and with it what is on its way.
  absl::Duration delay = absl::Microseconds(100);  ///< The most that a frame takes.
};

/// Runs all its transports on the thread that calls Step and Run. It outlives them.
class MemoryNetwork {
 public:
  MemoryNetwork(uint64_t seed, NetworkFaults faults, FrameLimits limits = {})
      : faults_(faults), limits_(limits), random_(seed) {}
  ~MemoryNetwork();

  /// Its Listen takes any address.
  std::unique_ptr<Transport> NewTransport();
  /// What was posted, or else the next event. False: there is none.
  bool Step();
  /// Everything that is due in this time.
  void Run(absl::Duration time);
  absl::Time now() const;
  /// From now on frames are neither lost nor doubled, and connections hold.
  void Calm() { faults_ = {0, 0, 0, faults_.delay}; }
  /// Breaks every connection.
  void CutAll();
  uint64_t frames() const { return frames_; }

 private:
  friend class MemoryTransport;
  friend class MemoryConnection;
  struct Listener {
    class MemoryTransport* transport;
    Transport::Accepted accepted;
  };

  void At(absl::Time when, std::function<void()> call);
  void Post(std::function<void()> call);
  bool Happens(double probability);
  absl::Duration Delay();

  NetworkFaults faults_;
  const FrameLimits limits_;
  std::mt19937_64 random_;
  uint64_t frames_ = 0;
  uint64_t next_port_ = 1;
  std::map<std::string, Listener> listeners_;
  std::vector<std::weak_ptr<class MemoryConnection>> connections_;

  mutable absl::Mutex mu_;
  absl::Time now_ ABSL_GUARDED_BY(mu_) = absl::UnixEpoch();
  uint64_t order_ ABSL_GUARDED_BY(mu_) = 0;
  /// By time, and then in the order in which they were added.
  std::map<std::pair<absl::Time, uint64_t>, std::function<void()>> events_ ABSL_GUARDED_BY(mu_);
};

}  // namespace baton::relay

#endif  // BATON_TESTS_SUPPORT_RELAY_MEMORY_NETWORK_H_
