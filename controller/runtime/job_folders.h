// The folders of jobs, `<data root>/jobs/PROJECT/JOB`: how one comes to be, and what one holds.
//
// A job's folder is made under a name that only this call uses, `jobs/PROJECT/.staging-UID`, and
// gets the job's name with one rename, when nothing can refuse the job any more. A call that is
// refused removes its own staging folder and nothing else.
//
// A folder is deleted only after its job's deletion is committed in the store. So that a crash
// between the two leaves no folder that blocks the name, the commit leaves a row with the job's
// uid, and the folder says before it whose it was (MarkDeleted). The next start removes a folder
// for which both say the same, and no other: a store that is lost, or a folder that was put there
// since, has not both. All functions may block.
#ifndef BATON_CONTROLLER_RUNTIME_JOB_FOLDERS_H_
#define BATON_CONTROLLER_RUNTIME_JOB_FOLDERS_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::controller {

/// What one CreateJob makes on disk. Nothing is made before `Stage` is called. Used by one thread.
class StagedFolder {
 public:
  /// `folder`: the job's. `adopt`: it exists with checkpoints, and what is staged is put beside
  /// what it has.
  StagedFolder(std::filesystem::path folder, std::string uid, bool adopt = false);
  /// Removes what was staged, unless Keep was called.
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  /// Where to write what will be `Final(name)`; the way there is made.
  std::filesystem::path Stage(const std::string& name);
  /// The name that the job's rows give it.
  std::filesystem::path Final(const std::string& name) const { return folder_ / name; }
  /// Gives everything that was staged its final name. ALREADY_EXISTS when something stands there;
  /// UNAVAILABLE for errors of the file system.
  absl::Status Keep();

 private:
  absl::Status KeepBeside();

  const std::filesystem::path folder_;
  const std::string uid_;
  const std::filesystem::path staging_;
  const bool adopt_;
  bool staged_ = false;
};

/// The job's row is committed: its folder is neither one that a crash left half made, nor that of
/// an earlier job that was deleted.
void Committed(const std::filesystem::path& folder);

/// Before the deletion of the job is committed: writes the job's uid into its folder, if it has
/// one, and syncs it. The job can be deleted without that (the disk may be full).
absl::Status MarkDeleted(const std::filesystem::path& folder, const std::string& uid);
/// True for a folder that MarkDeleted marked for this uid.
bool IsMarkedDeleted(const std::filesystem::path& folder, const std::string& uid);
/// After the deletion is committed: frees the folder's name with one rename, to
/// `jobs/PROJECT/.deleted-JOB`, and removes what it holds. What cannot be removed now is at the
/// next start. UNAVAILABLE, INTERNAL: the folder has its name still, or may have it again after a
/// power cut; nothing is removed.
absl::Status RemoveJobFolder(const std::filesystem::path& folder);

/// Removes what calls that never ended have left below `jobs`: staging folders, folders that
/// RemoveJobFolder renamed, and folders that have their job's name and nothing but what was staged,
/// while `known` says that there is no such job ("PROJECT/JOB").
void CleanJobFolders(const std::filesystem::path& jobs,
                     const std::function<bool(const std::string& job)>& known);

/// A complete checkpoint on disk.
struct FoundCheckpoint {
  int64_t step = 0;
  std::filesystem::path path;
};
/// The complete checkpoints of a job's folder, oldest first: folders `checkpoints/step-N` with the
/// two files that the controller writes last.
std::vector<FoundCheckpoint> FindCheckpoints(const std::filesystem::path& job_folder);
/// Renames the checkpoints of steps after `step` to `step-N.before-UID`: the job goes back behind
/// them, and would write over them.
absl::Status SetAsideAfter(const std::filesystem::path& job_folder, int64_t step,
                           const std::string& uid);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_JOB_FOLDERS_H_
