// The folders of models that submissions name.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMIT_MODEL_FOLDERS_H_
#define BATON_CONTROLLER_RUNTIME_SUBMIT_MODEL_FOLDERS_H_

#include <string>

#include "absl/status/statusor.h"
#include "controller/runtime/submit/controller_scope.h"
#include "controller/runtime/submit/submission.h"
#include "controller/runtime/submit/waiting_submissions.h"

namespace baton::controller {

/// A job gets its own copies of models in folders of other jobs: hard links, which take no space.
/// Blocks on files, so it is called on the threads that read data. Thread-safe.
class ModelFolders {
 public:
  ModelFolders(ControllerScope* scope, WaitingSubmissions* waiting)
      : scope_(scope), waiting_(waiting) {}

  /// The folder of a model that a spec names, or of its copy in the submission's `staged`.
  absl::StatusOr<std::string> Find(const std::string& reference, Submission* submission);
  /// The folder that `path` names, or the problem with it.
  absl::StatusOr<std::string> Resolve(const std::string& path, const std::string& project);
  /// The checkpoint for "job:NAME" and the like (checkpoint_choice.h). NOT_FOUND (JOB_NOT_FOUND).
  absl::StatusOr<v1::Checkpoint> CheckpointOf(const std::string& path,
                                              const std::string& project) const;

 private:
  absl::StatusOr<std::string> Stage(const std::string& reference, Submission* submission);

  ControllerScope* const scope_;
  WaitingSubmissions* const waiting_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMIT_MODEL_FOLDERS_H_
