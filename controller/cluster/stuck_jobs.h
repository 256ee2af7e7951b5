// Jobs that cannot go on: each lacks a worker for a blocking worker slot, and no free worker plays
// it.
//
// After ClusterOptions.rearrange_after the job's own workers change their worker slots, if that
// fills it (rearrange.h). If two jobs cannot go on because each lacks a worker that the other one
// holds, the later job gives its workers back after `yield_after`.
#ifndef BATON_CONTROLLER_CLUSTER_STUCK_JOBS_H_
#define BATON_CONTROLLER_CLUSTER_STUCK_JOBS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/cluster/cluster_effects.h"
#include "controller/cluster/cluster_parts.h"
#include "controller/cluster/need_queue.h"
#include "controller/cluster/rearrange.h"

namespace baton::controller {

/// The moves that would fill a blocking worker slot of an active job; empty: no such worker slot,
/// or no chain. `worker_slot`: which one. All functions here are pure.
std::vector<PlacedWorker> ChainFor(const ClusterParts& cluster, const std::string& job,
                                   const WorkerNeed& need, std::string* worker_slot);
/// A minimal list of later jobs that cannot go on either, the last first, with whose workers this
/// job could go on; empty: there is none.
std::vector<std::string> JobsYieldingTo(const ClusterParts& cluster, const std::string& job);

/// Workers move to worker slots that have been missing for long enough.
void Rearrange(ClusterParts& cluster, absl::Time now, ClusterEffects& effects);
/// Jobs that have been stuck for long enough yield to others.
void Yield(ClusterParts& cluster, absl::Time now, ClusterEffects& effects);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_STUCK_JOBS_H_
