// The folders of jobs, `<data root>/jobs/PROJECT/JOB`: their creation and deletion.
//
// A job's folder is created as `jobs/PROJECT/.staging-UID`, a name that only one call uses. Once
// the job can no longer be refused, one rename gives the folder the job's name. A refused call
// removes its own staging folder and nothing else.
//
// A folder is deleted only after its job's deletion is committed in the store. A crash between the
// two must not leave a folder that blocks the name. So before the commit, the job's uid is written
// into the folder (MarkDeleted), and the commit writes a row with the same uid. The next start
// removes a folder only if both uids agree. If the store was lost, or another folder was put there
// meanwhile, they do not agree. All functions may block.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_FILES_JOB_FOLDERS_H_
#define BATON_CONTROLLER_RUNTIME_JOB_FILES_JOB_FOLDERS_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::controller {

/// The folder of a job, by its full name: projects/P/jobs/J has `<data root>/jobs/P/J`.
std::string JobFolderOf(const std::string& data_root, const std::string& job);

/// The files that one CreateJob writes to disk. It writes nothing before `Stage` is called. Used by
/// one thread.
class StagedFolder {
 public:
  /// `project_folder`: `<data root>/jobs/PROJECT`. `uid`: of the new job.
  StagedFolder(const std::filesystem::path& project_folder, const std::string& uid);
  /// Moves the staged files to the trash (trash.h), unless Keep moved them.
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  /// The path at which to write what will be `name` in the job's folder; missing parents are
  /// created.
  std::filesystem::path Stage(const std::string& name);
  /// Moves everything that was staged to `folder`, the job's folder, which is beside the staging
  /// folder. `adopt`: the job's folder exists and has checkpoints; staged files are added to it.
  /// ALREADY_EXISTS: something else is there; UNAVAILABLE for errors of the file system.
  absl::Status Keep(const std::filesystem::path& folder, bool adopt = false);

 private:
  absl::Status KeepBeside(const std::filesystem::path& folder);

  const std::filesystem::path data_root_, staging_;
  bool staged_ = false;
};

/// Call after the job's row is committed: removes the marks that would let a later start take the
/// folder for a half-made one, or for that of an earlier, deleted job.
void Committed(const std::filesystem::path& folder);

/// Call before the deletion of the job is committed: writes the job's uid into its folder, if it
/// has one, and syncs it. If this fails (the disk may be full), the job can still be deleted.
absl::Status MarkDeleted(const std::filesystem::path& folder, const std::string& uid);
/// True if MarkDeleted marked this folder for this uid.
bool IsMarkedDeleted(const std::filesystem::path& folder, const std::string& uid);
/// Call after the deletion is committed: renames the folder to `jobs/PROJECT/.deleted-JOB`, which
/// frees its name, and moves it to the trash (trash.h). The cost does not depend on what the folder
/// holds. UNAVAILABLE, INTERNAL: the folder still has its name, or may have it again after a power
/// cut; nothing was removed.
absl::Status RemoveJobFolder(const std::string& data_root, const std::filesystem::path& folder);

/// Moves to the trash what unfinished calls have left below `jobs`: staging folders, folders that
/// RemoveJobFolder renamed, and folders with a job's name that hold only staged files, if `known`
/// says that there is no such job ("PROJECT/JOB"). In folders of known jobs it removes checkpoints
/// that were renamed where they are and not removed, because an ended job saves no further
/// checkpoint, which would remove them.
void CleanJobFolders(const std::filesystem::path& jobs,
                     const std::function<bool(const std::string& job)>& known);

/// A complete checkpoint on disk.
struct FoundCheckpoint {
  int64_t step = 0;
  std::filesystem::path path;
};
/// The complete checkpoints of a job's folder, oldest first: folders `checkpoints/step-N` that have
/// the two files which the controller writes last.
std::vector<FoundCheckpoint> FindCheckpoints(const std::filesystem::path& job_folder);
/// LinkFolder (folders.h) for a checkpoint, or a folder in it, that its job may delete meanwhile.
/// NOT_FOUND: it was removed. After an error nothing is at `to`.
absl::Status LinkCheckpoint(const std::filesystem::path& from, const std::filesystem::path& to);
/// Renames the checkpoints of steps after `step` to `step-N.before-UID`: the job goes back to
/// `step` and would overwrite them.
absl::Status SetAsideAfter(const std::filesystem::path& job_folder, int64_t step,
                           const std::string& uid);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_FILES_JOB_FOLDERS_H_
