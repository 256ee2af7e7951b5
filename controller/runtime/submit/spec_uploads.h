// The uploaded files that specs name.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMIT_SPEC_UPLOADS_H_
#define BATON_CONTROLLER_RUNTIME_SUBMIT_SPEC_UPLOADS_H_

#include <atomic>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "baton/v1/job_spec.pb.h"
#include "controller/runtime/files/uploads.h"
#include "controller/runtime/submit/controller_scope.h"

namespace baton::controller {

/// Thread-safe, unless a method says otherwise.
class SpecUploads {
 public:
  SpecUploads(ControllerScope* scope, Uploads* uploads) : scope_(scope), uploads_(uploads) {}

  /// Checks a data file of a spec. PERMISSION_DENIED (PATH): it is closed to the project. The age
  /// of an upload starts again, and the spec names the upload relative to the data root. Blocks.
  absl::Status Open(const std::string& project, std::string* file);
  /// Makes uploads of `project` from the copies in a checkpoint, and lets the checkpoint's spec
  /// name these uploads. Blocks.
  absl::Status Restore(const std::filesystem::path& checkpoint, const std::string& project,
                       v1::JobSpec* effective);

  /// A job was deleted: uploads that no job names are searched for sooner.
  void NoteDeletion() { job_deleted_ = true; }
  /// Now and then, removes uploads that no job names, on the thread of the remover. On the
  /// cluster's strand.
  void RemoveUnnamedWhenDue(absl::Time now);

 private:
  void RemoveUnnamed();

  ControllerScope* const scope_;
  Uploads* const uploads_;
  std::atomic<bool> removal_posted_{false};
  std::atomic<bool> job_deleted_{false};         // since the last search
  absl::Time looked_at_ = absl::InfinitePast();  // on the cluster's strand
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMIT_SPEC_UPLOADS_H_
