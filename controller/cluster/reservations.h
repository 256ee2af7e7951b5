// Free workers that are reserved for a job which others have overtaken for too long.
//
// A job that starts gets all its workers at once, so without reservations jobs that need few
// workers could overtake one that needs many for ever. After ClusterOptions.reserve_after the free
// workers that it could use are kept for it, as many as it lacks, until all are there. Jobs that
// have started and jobs of a higher priority still take them. A job that could not start even if
// all workers were free, or for which its project holds too many, reserves none: they would stay
// idle in vain.
#ifndef BATON_CONTROLLER_CLUSTER_RESERVATIONS_H_
#define BATON_CONTROLLER_CLUSTER_RESERVATIONS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "controller/cluster/cluster_parts.h"

namespace baton::controller {

struct Reservation {
  std::string job;
  int priority = 0;

  /// A job that has not started may take the worker all the same.
  bool Admits(const std::string& other, const WorkerNeed& need) const {
    return other == job || need.priority > priority;
  }
};

/// By worker. Adds to `examined` the number of workers that it looked at. Pure.
using Reservations = std::map<std::string, Reservation>;
Reservations ReserveWorkers(const ClusterParts& cluster, int64_t* examined);

/// Makes the jobs that have waited long enough by `now` reserve.
void MarkReserving(ClusterParts& cluster, absl::Time now);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_RESERVATIONS_H_
