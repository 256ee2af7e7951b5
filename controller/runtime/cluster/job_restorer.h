// Restoration of a store's jobs when a controller starts; jobs that cannot be restored are
// quarantined.
//
// A job that crashes the controller must not crash every later one. So the controller's deaths
// during the work for a job, in its restoration or in any later turn, are counted
// (JobFiles::MarkWork, kRestoreTable) until the job has done another step. A job is shown as FAILED
// (QUARANTINED) if the controller died twice during its work, if its rows are damaged, or if its
// spec is one that no controller accepts. Its rows and files then stay as they are.
#ifndef BATON_CONTROLLER_RUNTIME_CLUSTER_JOB_RESTORER_H_
#define BATON_CONTROLLER_RUNTIME_CLUSTER_JOB_RESTORER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/runtime/cluster/job_table.h"
#include "controller/runtime/job/job_runtime.h"
#include "controller/store/store.h"

namespace baton::controller {

class JobRestorer {
 public:
  struct Options {
    /// Jobs to quarantine, and jobs to restore again. Names are full, or of project `default`.
    std::vector<std::string> quarantine, unquarantine;
    /// The jobs during whose work the last controller died.
    std::vector<std::string> died_in;
    /// Jobs that have ended, and have no files left to remove, stay rows (ended_jobs.h), until
    /// Load.
    bool leave_ended = false;
    /// Called for every job in the store, also for those that stay rows. May be null.
    std::function<void(const std::string& job, int64_t order)> seen;
  };

  /// `context` outlives the jobs. `store` is the context's, or reads and writes the same rows.
  JobRestorer(const RuntimeContext* context, store::Store* store, Options options);

  /// Adds the jobs of the store to `jobs`, and returns them; none has started. NOT_FOUND: there is
  /// no such job as the options name. Blocks on the store.
  absl::StatusOr<std::vector<std::shared_ptr<JobRuntime>>> Restore(JobTable* jobs);

  struct Loaded {
    std::shared_ptr<JobRuntime> job;  ///< Not started; quarantined if its rows are damaged.
    int64_t order = 0;                ///< Of submission.
  };
  /// Loads one job that stayed rows. NOT_FOUND: the store has no such job. Other errors are the
  /// store's. Blocks. After Restore; thread-safe.
  absl::StatusOr<Loaded> Load(const std::string& name);

 private:
  absl::Status ReadRestores();
  absl::StatusOr<std::shared_ptr<JobRuntime>> RestoreJob(const store::Row& stored);
  /// Null: the job has ended and stays rows.
  absl::StatusOr<Loaded> RestoreOrQuarantine(const store::Row& stored, bool leave_ended);
  std::shared_ptr<JobRuntime> Quarantine(const store::Row& stored, const std::string& reason);

  const RuntimeContext* const context_;
  store::Store& store_;
  const Options options_;
  std::map<std::string, store::v1::RestoreRow> restores_;  // by job
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CLUSTER_JOB_RESTORER_H_
