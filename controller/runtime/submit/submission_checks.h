// The checks of a submission: they find all problems of its spec, and of the files and jobs that it
// names.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMIT_SUBMISSION_CHECKS_H_
#define BATON_CONTROLLER_RUNTIME_SUBMIT_SUBMISSION_CHECKS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "baton/v1/job_service.pb.h"
#include "controller/runtime/files/uploads.h"
#include "controller/runtime/job_files/data_files.h"
#include "controller/runtime/submit/contents_check.h"
#include "controller/runtime/submit/controller_scope.h"
#include "controller/runtime/submit/model_folders.h"
#include "controller/runtime/submit/projects.h"
#include "controller/runtime/submit/saved_jobs.h"
#include "controller/runtime/submit/spec_uploads.h"
#include "controller/runtime/submit/submission.h"

namespace baton::controller {

/// On the threads that read data. Thread-safe; a submission is checked by one thread at a time.
class SubmissionChecks {
 public:
  using Then = std::function<void(absl::Status)>;

  SubmissionChecks(ControllerScope* scope, Uploads* uploads, const Projects* projects,
                   ModelFolders* models, SavedJobs* saved, SpecUploads* spec_uploads);

  /// Finds all problems of a submission (Submission::violations), completes its spec if there are
  /// none, then calls `then`: at once, or on a thread that reads data. `keeps`: as
  /// ContentsCheck::Asked.
  void CheckAll(const std::shared_ptr<Submission>& submission, bool keeps, Then then);
  /// Ends running checks; afterwards no `then` is called. Call it after the gate is closed.
  void Stop() { contents_.Stop(); }

 private:
  using Violations = std::vector<v1::FieldViolation>;
  struct Lists;

  void CheckContents(const std::shared_ptr<Submission>& submission, bool keeps, Then then);
  void CheckLast(Submission* submission);
  /// Finds all problems of the files and folders that the spec names.
  Violations CheckFiles(Submission* submission);
  Violations CheckModels(Submission* submission);
  Violations CheckData(Submission* submission);
  void FillStepsOf(Submission* submission);
  Violations CheckSeed(const Submission& submission) const;
  Violations CheckOffers(const Submission& submission) const;

  ControllerScope* const scope_;
  const Projects* const projects_;
  ModelFolders* const models_;
  SavedJobs* const saved_;
  SpecUploads* const spec_uploads_;
  ContentsCheck contents_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMIT_SUBMISSION_CHECKS_H_
