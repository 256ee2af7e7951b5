#include "controller/runtime/path_guard.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/runtime/folders.h"
#include "sdk/rpc/error.h"

namespace baton::controller {

absl::Status PathGuard::Check(const std::string& path, const std::string& project) const {
  if (!confined_) return absl::OkStatus();
  std::vector<std::string> folders = open_;
  folders.push_back(data_root_ + "/files");
  folders.push_back(absl::StrCat(data_root_, "/jobs/", project));
  for (const std::string& folder : folders) {
    if (access::ValidId(project) && IsBelow(path, folder)) return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kPermissionDenied, "PATH",
                   absl::StrCat("path ", path, " is not open to project ", project,
                                ": name an uploaded file, a folder of the project's own jobs, or "
                                "one below a folder that the controller opens with --allow-path"));
}

bool PathGuard::IsUpload(const std::string& path) {
  const std::filesystem::path normal = std::filesystem::path(path).lexically_normal();
  return normal.is_relative() && normal.begin() != normal.end() && *normal.begin() == "files" &&
         std::find(normal.begin(), normal.end(), "..") == normal.end();
}

}  // namespace baton::controller
