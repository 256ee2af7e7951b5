// Matching of free workers with waiting jobs.
//
// Jobs that have started come first, then priority; among equal ones the job whose project holds
// the fewest workers for its weight goes first, then the job submitted first. A job that starts
// gets everything it asked for at once or nothing; one that has started takes what there is.
#ifndef BATON_CONTROLLER_CLUSTER_MATCH_WORKERS_H_
#define BATON_CONTROLLER_CLUSTER_MATCH_WORKERS_H_

#include <cstdint>

#include "controller/cluster/cluster_effects.h"
#include "controller/cluster/cluster_parts.h"

namespace baton::controller {

/// Grants free workers until no job that waits can be served. Returns the number of lines of
/// waiting jobs and free workers that it looked at: its work. Pure.
int64_t MatchWorkers(ClusterParts& cluster, ClusterEffects& effects);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_MATCH_WORKERS_H_
