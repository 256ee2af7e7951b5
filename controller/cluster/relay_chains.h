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
  // Bounds on what a token can make the controller remember: relays that are away; jobs in a
  // report, and the newest versions of each; bytes of a report's error.
  static constexpr size_t kMostAway = 1000, kMostJobs = 1000, kMostVersions = 64, kMostText = 300;
  /// A link is slow if a byte takes more than kSlow times as long on it as on the median of the
  /// chain's other links, with kSlowVersions versions in a row. A version says something of a link
  /// only if at least kTellingBytes of it were sent, over at least kTellingSeconds.
  static constexpr double kSlow = 4;
  static constexpr int kSlowVersions = 2;
  static constexpr double kTellingBytes = 1 << 20, kTellingSeconds = 0.2;

  /// `epoch`: of the controller. Orders of an older controller have smaller generations.
  explicit RelayChains(uint64_t epoch) : epoch_(epoch) {}

  /// A worker of role relay said Hello. `project`: the only one whose jobs it serves; "*": all.
  void OnRelay(const std::string& relay, const v1::Hello& hello, const std::string& project);
  /// Its stream ended. It keeps its places for one lease.
  void OnAway(const std::string& relay, absl::Time lease_end);
  /// Relays whose lease has ended leave their chains: those that `workers` does not have attached.
  void OnTick(const ClusterWorkers& workers, absl::Time now);
  /// The job's versions come from this worker from now on.
  void OnPublisher(const std::string& job, const std::string& worker);
  /// The job asks for no worker any more.
  void Forget(const std::string& job);
  bool Knows(const std::string& relay) const { return relays_.count(relay) > 0; }
  /// Replaces what the relay said before. Of jobs that it does not serve nothing is noted.
  void OnReport(const std::string& relay, const v1::RelayReport& report);

  /// Follows the workers of all jobs: adds the views of jobs and the orders of relays that have
  /// changed. `workers_changed`: since the last call. Nothing is done where nothing has changed.
  void Follow(const ClusterWorkers& workers, bool workers_changed, ClusterEffects& effects);

 private:
  // What a relay said of a job.
  struct Said {
    std::set<uint64_t> versions;
    uint64_t generation = 0;
    bool broken = false;
    std::string trouble;
    RelayHop hop;
  };
  struct Relay {
    v1::Hello hello;
    std::string project;
    bool attached = false;
    bool in_chains = true;                          // its lease has not ended
    absl::Time lease_end = absl::InfiniteFuture();  // while it is away
    uint64_t hellos = 0;                            // number of its last Hello, of all
    std::map<std::string, Said> said;               // by job
    bool told = false;                              // `orders` were sent on this stream
    std::string orders;                             // as sent last, serialized
  };
  struct Chain {
    uint64_t generation = 0;
    std::vector<std::string> relays;
    // Of each: its process and its address. A process that is started anew has nothing, so it is
    // another member.
    std::vector<std::string> processes;
    // Relays that could not reach another one, which went to the tail for that, until they reach
    // some; "": they went to the tail themselves. So two that refuse do not change places for ever.
    std::set<std::pair<std::string, std::string>> moved;
    // Of the chain as it is: versions in a row that the link behind this relay was slow with, and
    // the last of them.
    std::map<std::string, std::pair<int, uint64_t>> slow;
    // Relays that went to the tail for a slow link, once each: how slow, for people. And those that
    // sent to them: if another link of one is slow too, it goes there itself.
    std::map<std::string, std::string> moved_slow;
    std::set<std::string> slow_senders;
  };
  struct JobView {
    std::string publisher;  // a worker
    RelayView sent;
    Chain chain;
  };
  using ByMemory = std::map<std::string, std::vector<std::string>>;

  static bool Serves(const Relay& relay, const std::string& job);
  std::string RelayFor(const ClusterWorker& worker, const ByMemory& relays) const;
  RelayView ViewOf(const std::string& job, std::map<std::string, std::string> relay_of) const;
  void Order(const std::string& job, const std::string& head, const std::set<std::string>& members);
  void MoveUnreachable(const std::string& job, Chain& chain,
                       std::vector<std::string>& wanted) const;
  void MoveSlow(const std::string& job, Chain& chain, std::vector<std::string>& wanted) const;
  void SendOrders(ClusterEffects& effects);

  const uint64_t epoch_;
  std::map<std::string, Relay> relays_;
  std::map<std::string, JobView> jobs_;
  bool changed_ = false;  // since the last Follow
  uint64_t next_change_ = 0, next_hello_ = 0;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_RELAY_CHAINS_H_
