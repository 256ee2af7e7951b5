// The jobs in the folders of checkpoints, from which new jobs go on.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMIT_SAVED_JOBS_H_
#define BATON_CONTROLLER_RUNTIME_SUBMIT_SAVED_JOBS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/runtime/submit/controller_scope.h"
#include "controller/runtime/submit/model_folders.h"
#include "controller/runtime/submit/projects.h"
#include "controller/runtime/submit/spec_uploads.h"
#include "controller/runtime/submit/submission.h"
#include "controller/runtime/submit/waiting_submissions.h"

namespace baton::controller {

/// Blocks on files, so it is called on the threads that read data, except RowOf, which is called on
/// the admission strand. Thread-safe.
class SavedJobs {
 public:
  SavedJobs(ControllerScope* scope, Projects* projects, WaitingSubmissions* waiting,
            ModelFolders* models, SpecUploads* uploads)
      : scope_(scope), projects_(projects), waiting_(waiting), models_(models), uploads_(uploads) {}

  /// Finds the checkpoint that the request names, and reads its job.json.
  absl::Status Find(Submission* submission) const;
  /// Bytes to read, or to copy from another file system.
  uint64_t BytesOf(const Submission& submission) const;
  /// Stages the checkpoint and applies the changes of the request. Its own files replace uploads
  /// that are gone. Errors name the checkpoint as the user named it.
  absl::Status Prepare(Submission* submission);
  /// The row of a job whose files will be in `folder`.
  absl::StatusOr<store::v1::JobRow> RowOf(const Submission& submission, v1::Job job, int64_t order,
                                          const std::filesystem::path& folder);

 private:
  /// `named`: a checkpoint, by its folder or as "job:NAME", or a job's folder, which means its
  /// newest complete checkpoint.
  absl::StatusOr<Origin> FindOrigin(const std::string& named, const std::string& project) const;
  static absl::Status Change(const v1::JobSpec& changes, v1::Job* saved);
  absl::Status Stage(Submission* submission);
  absl::Status Copy(Submission* submission);
  absl::Status ChangeStaged(Submission* submission);
  absl::StatusOr<std::vector<v1::Checkpoint>> AdoptCheckpoints(const std::filesystem::path& folder,
                                                               const std::filesystem::path& chosen,
                                                               int64_t step) const;

  ControllerScope* const scope_;
  Projects* const projects_;
  WaitingSubmissions* const waiting_;
  ModelFolders* const models_;
  SpecUploads* const uploads_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMIT_SAVED_JOBS_H_
