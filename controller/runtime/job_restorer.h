// Restores the jobs of a store when a controller starts, and sets aside those that it cannot
// restore.
//
// A job that kills the controller must not kill every controller after it. So the controller's
// deaths in a job's restoration are counted (JobFiles::MarkRestoring, kRestoreTable). A job that
// they belong to, or whose rows are damaged, is shown as FAILED (QUARANTINED), and its rows and
// files stay as they are.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_RESTORER_H_
#define BATON_CONTROLLER_RUNTIME_JOB_RESTORER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/runtime/job_runtime.h"
#include "controller/runtime/job_table.h"
#include "controller/store/store.h"

namespace baton::controller {

class JobRestorer {
 public:
  struct Options {
    /// Jobs to set aside, and jobs to restore again. Names are full, or of project `default`.
    std::vector<std::string> quarantine, unquarantine;
    /// The jobs during whose restoration the last controller died.
    std::vector<std::string> died_in;
  };

  /// `context` outlives the jobs. `store` is the context's, or reads and writes the same rows.
  JobRestorer(const RuntimeContext* context, store::Store* store, Options options);

  /// Adds every job of the store to `jobs`, and returns them; none has started. NOT_FOUND: there is
  /// no such job as the options name. Blocks on the store.
  absl::StatusOr<std::vector<std::shared_ptr<JobRuntime>>> Restore(JobTable* jobs);

 private:
  absl::Status ReadRestores();
  absl::StatusOr<std::shared_ptr<JobRuntime>> RestoreJob(const store::Row& stored);
  std::shared_ptr<JobRuntime> SetAside(const store::Row& stored, const std::string& reason);

  const RuntimeContext* const context_;
  store::Store& store_;
  const Options options_;
  std::map<std::string, store::v1::RestoreRow> restores_;  // by job
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_RESTORER_H_
