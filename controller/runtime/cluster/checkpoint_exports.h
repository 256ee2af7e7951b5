// The checkpoints that workers export for ExportCheckpoint.
#ifndef BATON_CONTROLLER_RUNTIME_CLUSTER_CHECKPOINT_EXPORTS_H_
#define BATON_CONTROLLER_RUNTIME_CLUSTER_CHECKPOINT_EXPORTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "controller/cluster/cluster_core.h"
#include "controller/core/job/task.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/cluster/worker_directory.h"

namespace baton::controller {

/// An ExportCheckpoint that waits for its worker's answer.
struct PendingExport {
  std::string directory, dtype;
  std::string base_model;  ///< The model that the job began with; "": random weights.
  int64_t step = 0;
  Callback<v1::ExportCheckpointResponse> done;
  std::string worker;
  absl::Time seen;  ///< When the worker was last attached.
  absl::Time deadline;
};

/// On the cluster's strand.
class CheckpointExports {
 public:
  /// `epoch`: the controller's. `lease`: a worker that is gone for longer is lost. The others
  /// outlive this.
  CheckpointExports(uint64_t epoch, absl::Duration lease, const ClusterCore* core,
                    WorkerDirectory* directory)
      : epoch_(epoch), lease_(lease), core_(core), directory_(directory) {}

  /// Asks a worker to write a checkpoint of the job to `pending.directory`. UNAVAILABLE
  /// (NO_WORKER): none can.
  void Begin(const std::string& job, const std::string& checkpoint, PendingExport pending,
             absl::Time now);
  void OnResult(const std::string& worker, const TaskRef& ref, const v1::TaskResult& result);
  /// Answers calls whose worker is lost (NO_WORKER) or not done in time (EXPORT_DEADLINE).
  void Expire(absl::Time now);

 private:
  const uint64_t epoch_;
  const absl::Duration lease_;
  const ClusterCore* const core_;
  WorkerDirectory* const directory_;
  std::map<uint64_t, PendingExport> pending_;
  uint64_t next_ = 1;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CLUSTER_CHECKPOINT_EXPORTS_H_
