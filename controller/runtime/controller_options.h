// How a controller is to be.
#ifndef BATON_CONTROLLER_RUNTIME_CONTROLLER_OPTIONS_H_
#define BATON_CONTROLLER_RUNTIME_CONTROLLER_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/cluster_core.h"
#include "controller/core/job_core.h"
#include "controller/core/step_size.h"
#include "controller/store/store.h"

namespace baton::controller {

struct ControllerOptions {
  std::string data_root;                ///< Created when absent.
  std::unique_ptr<store::Store> store;  ///< Required.
  bool survive_power_cut = false;  ///< Payloads too are synced, before the rows that name them.
  int64_t kept_events = 100'000;   ///< The newest of each job.
  int64_t kept_logs = 100'000;
  int64_t kept_metrics = 10'000;  ///< Steps; older ones are thinned out (retention.h).
  /// Callers are not all of this machine: specs may name uploads, the project's own jobs and what
  /// is below `allowed_paths`.
  bool confine_paths = false;
  std::vector<std::string> allowed_paths;
  /// Shared with the relays, which then ask a publisher for a capability; empty: with none.
  std::string relay_key;
  StepLimits step_limits;                       ///< Of projects that have none of their own.
  uint64_t max_data_bytes = uint64_t{8} << 30;  ///< Of one list of files of a spec.
  /// Of the uploads of a project that has no limit of its own; 0: none.
  int64_t max_upload_bytes = int64_t{64} << 30;
  /// Uploads that no job names are removed when they are so old, and looked for so often.
  absl::Duration unnamed_uploads_kept = absl::Hours(24);
  absl::Duration look_for_unnamed_uploads = absl::Hours(1);
  /// Sooner after a deletion. Looking reads all jobs and checkpoints, so many deletions cost one.
  absl::Duration look_after_deletion = absl::Minutes(1);
  /// Jobs that are not restored (STATE_FAILED, QUARANTINED), and such that are tried again; names,
  /// full or of project `default`. Create answers NOT_FOUND for one that there is not.
  std::vector<std::string> quarantine, unquarantine;
  ClusterOptions cluster;
  JobCoreOptions core;
  absl::Duration tick = absl::Milliseconds(250);
  int strand_threads = 2;
  int disk_threads = 2;
  int reader_threads = 2;
  int data_threads = 2;  ///< Read data files, beside one that reads lists of so many bytes:
  uint64_t large_data_bytes = uint64_t{64} << 20;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CONTROLLER_OPTIONS_H_
