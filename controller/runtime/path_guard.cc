#include "controller/runtime/path_guard.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "sdk/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

bool IsBelow(const fs::path& path, const fs::path& folder) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  // A folder's canonical name has no empty last part; one that does not exist may.
  return end == folder.end() || (std::next(end) == folder.end() && end->empty());
}

fs::path Canonical(const fs::path& path) {
  std::error_code code;
  const fs::path real = fs::weakly_canonical(path, code);
  return code ? fs::path() : real;  // below nothing
}

}  // namespace

absl::Status PathGuard::Check(const std::string& path, const std::string& project) const {
  if (!confined_) return absl::OkStatus();
  const fs::path real = Canonical(path);
  std::vector<std::string> folders = open_;
  folders.push_back(data_root_ + "/files");
  folders.push_back(absl::StrCat(data_root_, "/jobs/", project));
  for (const std::string& folder : folders) {
    if (!real.empty() && IsBelow(real, Canonical(folder))) return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kPermissionDenied, "PATH",
                   absl::StrCat("path ", path, " is not open to project ", project,
                                ": name an uploaded file, a folder of the project's own jobs, or "
                                "one below a folder that the controller opens with --allow-path"));
}

bool PathGuard::IsUpload(const std::string& path) {
  const fs::path normal = fs::path(path).lexically_normal();
  return normal.is_relative() && normal.begin() != normal.end() && *normal.begin() == "files" &&
         std::find(normal.begin(), normal.end(), "..") == normal.end();
}

}  // namespace baton::controller
