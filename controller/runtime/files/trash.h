// The trash of a data root, `<data root>/trash`, through which files of any size are removed
// without waits.
//
// To delete, a call renames: one system call, however large the folder is. A thread of its own then
// removes what is in the trash. The trash is only a folder, so nothing is lost in a crash: the next
// controller finds it and goes on.
#ifndef BATON_CONTROLLER_RUNTIME_FILES_TRASH_H_
#define BATON_CONTROLLER_RUNTIME_FILES_TRASH_H_

#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace baton::controller {

/// Names of folders that are being removed where they are: below `jobs/PROJECT` with the prefix,
/// checkpoints with the suffix.
inline constexpr char kDeletedPrefix[] = ".deleted-";
inline constexpr char kDeletedSuffix[] = ".deleted.tmp";

/// Moves a file, or a folder with its contents, into the trash; a link is moved itself, not its
/// target. OK also if nothing is at `path`. UNAVAILABLE: the path still exists. A path on another
/// file system than the data root (an operator may mount one) cannot be moved there: it is renamed
/// in place, `.deleted-….deleted.tmp`, and removed before the call returns. Thread-safe.
absl::Status MoveToTrash(const std::filesystem::path& data_root, const std::filesystem::path& path);

/// Removes what is in the trash before it returns, as far as possible: while no controller runs.
void EmptyTrash(const std::filesystem::path& data_root);

/// Empties the trash on a thread of low priority. It never follows links, even if folders change
/// meanwhile, and needs no memory for deep folders.
class TrashRemover {
 public:
  explicit TrashRemover(const std::filesystem::path& data_root);
  /// Waits for one piece of work; the rest stays for the next controller.
  ~TrashRemover();
  TrashRemover(const TrashRemover&) = delete;
  TrashRemover& operator=(const TrashRemover&) = delete;

 private:
  void Run();

  const std::filesystem::path trash_;
  std::set<std::string> stuck_;  // entries that cannot be removed; used by the thread only
  absl::Mutex mu_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_FILES_TRASH_H_
