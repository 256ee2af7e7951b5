// The relays of the hosts that a job runs on, in a chain down which its versions travel.
//
//   publishing worker's relay ──► relay ──► relay      new ones join at the tail; one that the
//                                                      relay before it cannot reach goes there
//
// Pure. Owns the relays that have attached, what each said it has, and the chain of each job that
// runs on more than one host. A relay and the workers of its host show the same memory
// (Hello.memory_id). A relay whose link to the controller is cut stays in its chains until its
// lease has ended: versions go on travelling meanwhile.
#ifndef BATON_CONTROLLER_CLUSTER_RELAY_CHAINS_H_
#define BATON_CONTROLLER_CLUSTER_RELAY_CHAINS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "baton/v1/worker_service.pb.h"
#include "controller/cluster/cluster_effects.h"
#include "controller/cluster/cluster_workers.h"
#include "controller/cluster/worker_exchange.h"

namespace baton::controller {

/// Not thread-safe.
class RelayChains {
 public:
  /// Relays that are away and still known, at most: a token can attach under any number of ids.
  static constexpr size_t kMostAway = 1000;

  /// Versions of a job that a relay may say it has; the newest count.
  static constexpr size_t kMostVersions = 64;

  /// `epoch`: of the controller. Orders of an older controller have smaller generations.
  explicit RelayChains(uint64_t epoch) : epoch_(epoch) {}

  /// A worker of role relay said Hello. `project`: the only one whose jobs it serves; "*": all.
  void OnRelay(const std::string& relay, const v1::Hello& hello, const std::string& project);
  /// Its stream ended. It keeps its places for one lease.
  void OnAway(const std::string& relay, absl::Time lease_end);
  /// Relays whose lease has ended leave their chains.
  void OnTick(absl::Time now);
  /// The job's versions come from this worker from now on.
  void OnPublisher(const std::string& job, const std::string& worker);
  /// The job is deleted, or has ended.
  void Forget(const std::string& job);
  /// Replaces what the relay said before. Of jobs that it does not serve nothing is noted.
  void OnReport(const std::string& relay, const v1::RelayReport& report);

  /// Follows the workers of all jobs: adds the views of jobs and the orders of relays that have
  /// changed. Nothing is done while no relay is known and none was.
  void Follow(const ClusterWorkers& workers, ClusterEffects& effects);

 private:
  struct Relay {
    v1::Hello hello;
    std::string project;
    bool attached = false;
    absl::Time lease_end = absl::InfiniteFuture();       // while it is away
    bool in_chains = true;                               // its lease has not ended
    std::map<std::string, std::set<uint64_t>> versions;  // by job
    std::map<std::string, uint64_t> broken;  // by job: generation of the order with a broken link
    bool told = false;                       // `orders` were sent on this stream
    std::string orders;                      // as sent last, serialized
  };
  struct Chain {
    uint64_t generation = 0;
    std::vector<std::string> relays;
    // Of each: its process and its address. A process that is started anew has nothing, so it is
    // another member.
    std::vector<std::string> processes;
  };
  struct JobView {
    std::string publisher;  // a worker
    RelayView sent;
    Chain chain;
  };

  bool Serves(const Relay& relay, const std::string& job) const;
  std::string RelayFor(const ClusterWorker& worker, const std::string& job) const;
  void Order(const std::string& job, const std::string& head, const std::set<std::string>& members);
  void SendOrders(ClusterEffects& effects);

  const uint64_t epoch_;
  std::map<std::string, Relay> relays_;
  std::map<std::string, JobView> jobs_;
  bool changed_ = false;      // since the last Follow
  uint64_t next_change_ = 0;  // of any chain
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_RELAY_CHAINS_H_
