// Effects of an event of the cluster on streams of workers and on jobs.
#ifndef BATON_CONTROLLER_CLUSTER_CLUSTER_EFFECTS_H_
#define BATON_CONTROLLER_CLUSTER_CLUSTER_EFFECTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "baton/v1/worker_service.pb.h"
#include "controller/cluster/worker_exchange.h"

namespace baton::controller {

struct ClusterWelcome {  ///< Answer Hello on this stream.
  uint64_t session = 0;
  std::string worker;
  int protocol = 1;
  std::vector<v1::RoleHeld> release;  ///< Roles no job wants any more.
};
struct ClusterRefuse {  ///< End this stream.
  uint64_t session = 0;
  std::string reason;  ///< ErrorInfo reason.
  absl::Status status;
};
struct ClusterGrant {
  std::string job, worker;
  std::string roles;                   ///< Joined by "+".
  std::map<std::string, int> credits;  ///< By role.
};
struct ClusterLost {
  std::string job, worker, reason;
  bool moves = false;  ///< The worker lives, and gets another worker slot of the job next.
};
struct ClusterReconnected {
  std::string job, worker;
  v1::Hello hello;
};
struct ClusterYield {  ///< The job gives all its workers back, and asks for them anew.
  std::string job, reason;
};
struct ClusterRelays {  ///< What the job has to know of its hosts' relays has changed.
  std::string job;
  RelayView relays;
};
struct ClusterRelayOrders {  ///< Replaces the relay's orders; without uids and capabilities.
  std::string relay;
  v1::RelayOrders orders;
};
using ClusterEffect =
    std::variant<ClusterWelcome, ClusterRefuse, ClusterGrant, ClusterLost, ClusterReconnected,
                 ClusterYield, ClusterRelays, ClusterRelayOrders>;
using ClusterEffects = std::vector<ClusterEffect>;

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_CLUSTER_EFFECTS_H_
