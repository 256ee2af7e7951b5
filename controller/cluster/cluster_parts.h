// The parts of the cluster. ClusterCore changes them by its events; matching, moves between worker
// slots and explanations are functions on them.
#ifndef BATON_CONTROLLER_CLUSTER_CLUSTER_PARTS_H_
#define BATON_CONTROLLER_CLUSTER_CLUSTER_PARTS_H_

#include <cstdint>
#include <string>

#include "controller/cluster/cluster_options.h"
#include "controller/cluster/cluster_workers.h"
#include "controller/cluster/need_queue.h"
#include "controller/cluster/project_quotas.h"
#include "controller/cluster/relay_chains.h"

namespace baton::controller {

struct ClusterParts {
  ClusterParts(uint64_t epoch, const ClusterOptions& given)
      : options(given), workers(epoch, &options), relays(epoch) {}
  ClusterParts(const ClusterParts&) = delete;  // the workers refer to the options
  ClusterParts& operator=(const ClusterParts&) = delete;

  /// True if the project may hold another worker.
  bool HasRoom(const std::string& project) const {
    return quotas.RoomOf(project, workers.HeldBy(project)) > 0;
  }

  const ClusterOptions options;
  ClusterWorkers workers;
  NeedQueue needs;
  ProjectQuotas quotas;
  RelayChains relays;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_CLUSTER_PARTS_H_
