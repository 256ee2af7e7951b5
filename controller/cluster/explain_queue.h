// Explanation of a job's wait for workers, with advice.
#ifndef BATON_CONTROLLER_CLUSTER_EXPLAIN_QUEUE_H_
#define BATON_CONTROLLER_CLUSTER_EXPLAIN_QUEUE_H_

#include <string>

#include "absl/time/time.h"
#include "baton/v1/job_service.pb.h"
#include "controller/cluster/cluster_parts.h"

namespace baton::controller {

/// Adds what the cluster knows of a job's waits: first the job's workers that have been silent for
/// two heartbeats; then, if the job waits for workers, which jobs hold the existing ones. Pure.
void ExplainQueue(const ClusterParts& cluster, const std::string& job, absl::Time now,
                  v1::ExplainJobResponse* answer);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CLUSTER_EXPLAIN_QUEUE_H_
