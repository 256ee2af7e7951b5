// Messages between a job and the queue about the job's workers.
#ifndef BATON_CONTROLLER_CLUSTER_WORKER_EXCHANGE_H_
#define BATON_CONTROLLER_CLUSTER_WORKER_EXCHANGE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace baton::controller {

/// A job's hints for the queue about its worker slots, by their roles, joined by "+".
struct WorkerSlotHints {
  std::set<std::string> blocking;  ///< Missing, and the job cannot go on without them.
  std::set<std::string> anchored;  ///< Taken, and moving the worker there takes a group apart.
};

/// The reason for which a job gives a worker back.
enum class ReturnReason : uint8_t {
  kGood,
  kSilent,  ///< The worker let a deadline pass.
  kSlow,    ///< The worker was persistently slower than its peers.
  kStuck,   ///< The worker did not report in time that it had left its role.
};

/// How the last version went from a relay to the next one.
struct RelayHop {
  uint64_t version = 0, size_bytes = 0, sent_bytes = 0;
  double seconds = 0;
  double link_seconds = 0;  ///< Of them, while bytes were on the link.

  bool operator==(const RelayHop& other) const {
    return version == other.version && size_bytes == other.size_bytes &&
           sent_bytes == other.sent_bytes && seconds == other.seconds &&
           link_seconds == other.link_seconds;
  }
};

/// The relays of the hosts that a job runs on.
struct RelayView {
  /// Worker -> the relay of its host; "": none is attached. A worker that is missing here knows its
  /// relay by itself (Hello.memory_id).
  std::map<std::string, std::string> relay_of;
  /// Of each relay: where the workers of its host reach it (RelayPlace.address).
  std::map<std::string, std::string> addresses;
  /// Of each relay: its process. One that is started anew has lost all versions.
  std::map<std::string, std::string> processes;
  /// Of each relay: the job's versions that are visible on its host.
  std::map<std::string, std::set<uint64_t>> versions;
  /// Of each relay that gets no versions at the moment: why, for people.
  std::map<std::string, std::string> trouble;
  /// Those of them that no other relay sends to at all.
  std::set<std::string> unreachable;
  /// Relays that went to the tail of the chain because of a slow link: how slow, for people.
  std::map<std::string, std::string> slow;
  /// Of each relay that has sent a version on.
  std::map<std::string, RelayHop> hops;

  bool operator==(const RelayView& other) const {
    return relay_of == other.relay_of && addresses == other.addresses &&
           processes == other.processes && versions == other.versions && trouble == other.trouble &&
           unreachable == other.unreachable && slow == other.slow && hops == other.hops;
  }
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_WORKER_EXCHANGE_H_
