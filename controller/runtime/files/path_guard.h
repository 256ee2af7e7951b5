// Guard of paths: decides which folders the specs of a project may name.
#ifndef BATON_CONTROLLER_RUNTIME_FILES_PATH_GUARD_H_
#define BATON_CONTROLLER_RUNTIME_FILES_PATH_GUARD_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace baton::controller {

/// Immutable, thread-safe.
class PathGuard {
 public:
  /// Not `confined`: a spec may name every path; for a controller whose callers are all on this
  /// machine. Confined: only the project's own uploads and jobs below `data_root`, and paths below
  /// `open`.
  PathGuard(std::string data_root, bool confined, std::vector<std::string> open)
      : data_root_(std::move(data_root)), confined_(confined), open_(std::move(open)) {}

  /// PERMISSION_DENIED (PATH) names the path. Links and ".." are resolved first; a path that does
  /// not exist is judged by its nearest existing parent.
  absl::Status Check(const std::string& path, const std::string& project) const;
  /// The same for a folder and for the links in it, because they are read as files of the folder.
  absl::Status CheckFolder(const std::string& path, const std::string& project) const;
  /// OK if an export may be written there: not among uploads and jobs, confined or not. Confined:
  /// only below `data_root`/exports/PROJECT and below `open`. PERMISSION_DENIED (PATH).
  absl::Status CheckExport(const std::string& path, const std::string& project) const;
  /// True if a relative path stays within the uploads. Checked for every file, confined or not.
  static bool IsUpload(const std::string& path);

  bool confined() const { return confined_; }

 private:
  const std::string data_root_;
  const bool confined_;
  const std::vector<std::string> open_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_FILES_PATH_GUARD_H_
