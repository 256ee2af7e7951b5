// What a job that waits for workers waits for, and what to do about it.
#ifndef BATON_CONTROLLER_CLUSTER_EXPLAIN_QUEUE_H_
#define BATON_CONTROLLER_CLUSTER_EXPLAIN_QUEUE_H_

#include <string>

#include "absl/time/time.h"
#include "baton/v1/job_service.pb.h"
#include "controller/cluster/cluster_parts.h"

namespace baton::controller {

/// Adds what the cluster knows of a job's waits: first its workers that have been silent for two
/// heartbeats; and of the wait for workers, who has those that there are. Pure.
void ExplainQueue(const ClusterParts& cluster, const std::string& job, absl::Time now,
                  v1::ExplainJobResponse* answer);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_EXPLAIN_QUEUE_H_
