// The calls that submit a spec or a checkpoint: ValidateJob and CreateJob.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMIT_SUBMISSIONS_H_
#define BATON_CONTROLLER_RUNTIME_SUBMIT_SUBMISSIONS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/job_service.pb.h"
#include "controller/runtime/calls/calls.h"
#include "controller/runtime/submit/controller_scope.h"
#include "controller/runtime/submit/job_launcher.h"
#include "controller/runtime/submit/model_folders.h"
#include "controller/runtime/submit/projects.h"
#include "controller/runtime/submit/requests.h"
#include "controller/runtime/submit/saved_jobs.h"
#include "controller/runtime/submit/spec_uploads.h"
#include "controller/runtime/submit/submission.h"
#include "controller/runtime/submit/submission_checks.h"
#include "controller/runtime/submit/waiting_submissions.h"

namespace baton::controller {

/// Validate and Create: any thread. A submission goes from the caller's thread to the admission
/// strand (Enter), to the threads that read data (Read), and back to the admission strand (Make);
/// one thread at a time uses it.
class Submissions {
 public:
  Submissions(ControllerScope* scope, Projects* projects, Requests* requests, JobLauncher* launcher,
              WaitingSubmissions* waiting, Uploads* uploads, SpecUploads* spec_uploads);

  void Validate(v1::ValidateJobRequest request, Callback<v1::ValidateJobResponse> done,
                CallerGone gone);
  void Create(v1::CreateJobRequest request, Callback<v1::Job> done, CallerGone gone);
  /// Ends running checks; afterwards no call is answered. Call it after the gate is closed.
  void Stop() { checks_.Stop(); }

 private:
  using Submitted = std::shared_ptr<Submission>;

  Submitted NewSubmission(const std::string& project);
  void Enter(const Submitted& submission);
  /// Bytes that must be read to check it.
  uint64_t FindSize(Submission* submission);
  /// Reads, stages and checks the submission's files, then calls Make.
  void Read(const Submitted& submission);
  void Make(const Submitted& submission);
  /// The row of a new job whose files are in place; after an error, no file is left.
  absl::StatusOr<store::v1::JobRow> FirstRow(Submission* submission, v1::Job job, int64_t order);
  absl::Status CheckGoesOn(const Submission& submission, const store::v1::JobRow& row) const;

  ControllerScope* const scope_;
  Projects* const projects_;
  Requests* const requests_;
  JobLauncher* const launcher_;
  WaitingSubmissions* const waiting_;
  ModelFolders models_;
  SavedJobs saved_;
  SubmissionChecks checks_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMIT_SUBMISSIONS_H_
