// A job as stored: read when a controller starts, before the job goes on.
#ifndef BATON_CONTROLLER_RUNTIME_ROWS_STORED_JOB_H_
#define BATON_CONTROLLER_RUNTIME_ROWS_STORED_JOB_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/store/store.h"

namespace baton::controller {

struct StoredJob {
  store::v1::JobRow row;  ///< With the spec and the checkpoints, which are in separate rows.
  /// By serial number; for an active job, the trajectories of the steps that it keeps.
  std::map<uint64_t, store::v1::TrajectoryRow> trajectories;
  int64_t next_log_sequence = 1;
};

/// Sets spec, effective_spec and dataflow of `job`. DATA_LOSS: they are missing or damaged.
absl::Status ReadSpec(store::Store& store, const std::string& name, v1::Job* job);

/// Reads the other rows that belong to `stored`, a row of kJobTable. DATA_LOSS: they cannot be the
/// rows of a job. Other errors are the store's. Blocks.
absl::StatusOr<StoredJob> ReadStoredJob(store::Store& store, const store::Row& stored);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_ROWS_STORED_JOB_H_
