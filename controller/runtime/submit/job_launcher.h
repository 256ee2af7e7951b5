// Launch of new jobs: they get a name and an order, then their first rows.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMIT_JOB_LAUNCHER_H_
#define BATON_CONTROLLER_RUNTIME_SUBMIT_JOB_LAUNCHER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/core/loop/job_core.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/submit/controller_scope.h"
#include "controller/runtime/submit/requests.h"
#include "controller/runtime/submit/submission.h"
#include "controller/store/store.h"

namespace baton::controller {

/// On the admission strand, except NewUid and NewStaged. Two calls with the same name meet here,
/// and one of them gets it.
class JobLauncher {
 public:
  JobLauncher(ControllerScope* scope, Requests* requests) : scope_(scope), requests_(requests) {}

  /// The uid for a new job. Any thread.
  std::string NewUid();
  /// The folder for the files of a new job until it has a name. Any thread.
  std::unique_ptr<StagedFolder> NewStaged(const std::string& project, const std::string& uid) const;

  /// The order of the next job. Only Launch adds jobs.
  int64_t next_order() const { return scope_->jobs.next_order(); }
  /// The full name of a new job: with the id that is asked for, that of the lost job whose folder
  /// is given, or a new one that begins with `kind`. INVALID_ARGUMENT (NAME_INVALID).
  /// ALREADY_EXISTS (JOB_EXISTS; JOB_FOLDER: files of a lost job).
  absl::StatusOr<std::string> ChooseName(const std::string& id, const std::string& project,
                                         const char* kind, int64_t order, const Origin& origin);
  /// Makes the job known, and answers once its first rows are committed, `extra` and the row of the
  /// request among them.
  void Launch(JobCore core, int64_t order, const Request& request, std::vector<store::Write> extra,
              Callback<v1::Job> done);

 private:
  absl::StatusOr<std::string> FreeName(const std::string& id, const std::string& project,
                                       const Origin& origin);

  ControllerScope* const scope_;
  Requests* const requests_;
  std::atomic<uint64_t> next_uid_{1};
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMIT_JOB_LAUNCHER_H_
