// An ExportCheckpoint that waits for its worker's answer.
#ifndef BATON_CONTROLLER_RUNTIME_CLUSTER_PENDING_EXPORT_H_
#define BATON_CONTROLLER_RUNTIME_CLUSTER_PENDING_EXPORT_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "baton/v1/job_service.pb.h"
#include "controller/runtime/calls/calls.h"

namespace baton::controller {

/// Used on the cluster's strand.
struct PendingExport {
  std::string directory, dtype;
  std::string base_model;  // that the job began with; "": random weights
  int64_t step = 0;
  Callback<v1::ExportCheckpointResponse> done;
  std::string worker;
  absl::Time seen;  // when the worker was last attached
  absl::Time deadline;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CLUSTER_PENDING_EXPORT_H_
