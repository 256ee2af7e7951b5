// Which folders the specs of a project may name.
#ifndef BATON_CONTROLLER_RUNTIME_PATH_GUARD_H_
#define BATON_CONTROLLER_RUNTIME_PATH_GUARD_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace baton::controller {

/// Immutable, thread-safe.
class PathGuard {
 public:
  /// Not `confined`: every path may be named; for a controller whose callers are all of this
  /// machine. Confined: the project's own uploads and jobs below `data_root`, and what is below
  /// `open`.
  PathGuard(std::string data_root, bool confined, std::vector<std::string> open)
      : data_root_(std::move(data_root)), confined_(confined), open_(std::move(open)) {}

  /// PERMISSION_DENIED (PATH) names the path. Links and ".." are followed first; a path that does
  /// not exist is judged by its nearest parent that does.
  absl::Status Check(const std::string& path, const std::string& project) const;
  /// The same of a folder and of the links in it, which are read as files of it.
  absl::Status CheckFolder(const std::string& path, const std::string& project) const;
  /// Where an export may be written: not among uploads and jobs, confined or not. Confined: below
  /// `data_root`/exports/PROJECT and below `open`. PERMISSION_DENIED (PATH).
  absl::Status CheckExport(const std::string& path, const std::string& project) const;
  /// A relative path that does not leave the uploads. Asked of every file, confined or not.
  static bool IsUpload(const std::string& path);

  bool confined() const { return confined_; }

 private:
  const std::string data_root_;
  const bool confined_;
  const std::vector<std::string> open_;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_PATH_GUARD_H_
