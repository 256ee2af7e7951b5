// The deletion of a job: of its rows, then of its folder.
#ifndef BATON_CONTROLLER_RUNTIME_CONTROLLER_DELETE_JOB_H_
#define BATON_CONTROLLER_RUNTIME_CONTROLLER_DELETE_JOB_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/job/job_runtime.h"
#include "controller/runtime/submit/controller_scope.h"
#include "controller/runtime/submit/spec_uploads.h"
#include "controller/store/store.h"

namespace baton::controller {

/// Deletes jobs of a controller that runs. Any thread. The rows are read on the threads that read
/// lists, so that admission does not wait if there are many.
class JobRemover {
 public:
  JobRemover(ControllerScope* scope, SpecUploads* uploads) : scope_(scope), uploads_(uploads) {}

  /// Deletes a job that was retired, then answers with an empty job. `extra`: a row that is
  /// committed with the deletion; null: none. After an error the job still exists.
  void Remove(const std::shared_ptr<JobRuntime>& job, const JobRuntime::ExtraRow& extra,
              const Callback<v1::Job>& done);
  /// Removes the folders of jobs whose deletion was committed before a crash. Before the first
  /// call. Blocks.
  absl::Status FinishRemovals();

 private:
  void RemoveRows(const std::shared_ptr<JobRuntime>& job, const JobRuntime::ExtraRow& extra,
                  const Callback<v1::Job>& done);
  /// On the admission strand. The cost does not depend on how much the job has stored.
  void RemoveLast(const std::shared_ptr<JobRuntime>& job, const JobRuntime::ExtraRow& extra,
                  const Callback<v1::Job>& done);
  void RemoveFolder(const std::shared_ptr<JobRuntime>& job, const Callback<v1::Job>& done);

  ControllerScope* const scope_;
  SpecUploads* const uploads_;
};

/// Deletes a job of a store that no controller uses: for a controller that is down or does not
/// start. `name`: full, or of project `default`. NOT_FOUND (JOB_NOT_FOUND). FAILED_PRECONDITION
/// (JOB_ACTIVE): it has not ended, and is not quarantined either. Blocks.
absl::Status DeleteStoredJob(store::Store& store, const std::string& data_root,
                             const std::string& name);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CONTROLLER_DELETE_JOB_H_
