#include "controller/runtime/files/path_guard.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/access/caller.h"
#include "controller/runtime/files/folders.h"
#include "sdk/common/base/relative_path.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {

absl::Status PathGuard::Check(const std::string& path, const std::string& project) const {
  if (!confined_) return absl::OkStatus();
  std::vector<std::string> folders = open_;
  folders.push_back(absl::StrCat(data_root_, "/files/", project));
  folders.push_back(absl::StrCat(data_root_, "/jobs/", project));
  for (const std::string& folder : folders) {
    if (access::ValidId(project) && IsBelow(path, folder)) return absl::OkStatus();
  }
  return MakeError(
      absl::StatusCode::kPermissionDenied, "PATH",
      absl::StrCat("path ", path, " is not open to project ", project,
                   ": name a file that was uploaded to it, a folder of its own jobs, or "
                   "one below a folder that the controller opens with --allow-path"));
}

absl::Status PathGuard::CheckFolder(const std::string& path, const std::string& project) const {
  BATON_RETURN_IF_ERROR(Check(path, project));
  if (!confined_) return absl::OkStatus();
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator(path, code)) {
    if (!entry.is_symlink(code)) continue;
    BATON_RETURN_IF_ERROR(Check(entry.path().string(), project));
  }
  return absl::OkStatus();
}

absl::Status PathGuard::CheckExport(const std::string& path, const std::string& project) const {
  for (const char* kept : {"/files", "/jobs"}) {
    if (!IsBelow(path, data_root_ + kept)) continue;
    return MakeError(absl::StatusCode::kPermissionDenied, "PATH",
                     absl::StrCat("an export to ", path, " would be among the controller's own ",
                                  "files; name a folder that is not below ", data_root_, kept));
  }
  if (!confined_) return absl::OkStatus();
  std::vector<std::string> folders = open_;
  folders.push_back(absl::StrCat(data_root_, "/exports/", project));
  for (const std::string& folder : folders) {
    if (access::ValidId(project) && IsBelow(path, folder)) return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kPermissionDenied, "PATH",
                   absl::StrCat("path ", path, " is not open to exports of project ", project,
                                ": name a folder below ", folders.back(),
                                ", or one that the controller opens with --allow-path"));
}

bool PathGuard::IsUpload(const std::string& path) {
  return StaysBelow(path) && absl::StartsWith(path, "files/");
}

}  // namespace baton::controller
