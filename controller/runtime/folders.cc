#include "controller/runtime/folders.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sdk/base/status_macros.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

absl::Status Failed(const fs::path& from, const fs::path& to, const std::error_code& code) {
  const std::string message = absl::StrCat("cannot keep a copy of ", from.string(), " as ",
                                           to.string(), ": ", code.message());
  return code == std::errc::no_space_on_device ? absl::ResourceExhaustedError(message)
                                               : absl::UnavailableError(message);
}

absl::Status SyncPath(const fs::path& path, int flags) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  const bool synced = fd >= 0 && ::fsync(fd) == 0;
  const std::error_code code(errno, std::generic_category());
  if (fd >= 0) ::close(fd);
  if (synced) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot sync ", path.string(), ": ", code.message()));
}

}  // namespace

absl::Status SyncFolder(const fs::path& folder) { return SyncPath(folder, O_DIRECTORY); }

absl::Status MakeFolder(const fs::path& folder) {
  std::vector<fs::path> made;  // the innermost first
  std::error_code code;
  for (fs::path at = fs::absolute(folder); !at.empty() && !fs::is_directory(at, code);
       at = at.parent_path()) {
    made.push_back(at);
  }
  fs::create_directories(folder, code);
  if (code) {
    const std::string message =
        absl::StrCat("cannot create ", folder.string(), ": ", code.message());
    return code == std::errc::no_space_on_device ? absl::ResourceExhaustedError(message)
                                                 : absl::UnavailableError(message);
  }
  for (const fs::path& at : made) BATON_RETURN_IF_ERROR(SyncFolder(at.parent_path()));
  return absl::OkStatus();
}

absl::Status LinkFile(const fs::path& from, const fs::path& to) {
  std::error_code code;
  BATON_RETURN_IF_ERROR(MakeFolder(to.parent_path()));
  fs::remove(to, code);
  fs::create_hard_link(from, to, code);
  if (code) {
    fs::copy_file(from, to, code);
    if (!code) BATON_RETURN_IF_ERROR(SyncPath(to, 0));
  }
  if (code) return Failed(from, to, code);
  return SyncFolder(to.parent_path());
}

absl::Status LinkFolder(const fs::path& from, const fs::path& to) {
  std::error_code code;
  fs::remove_all(to, code);
  fs::create_directories(to, code);
  for (fs::recursive_directory_iterator it(from, code), end; !code && it != end;
       it.increment(code)) {
    if (it->is_directory()) continue;
    const absl::Status linked = LinkFile(it->path(), to / fs::relative(it->path(), from));
    if (!linked.ok()) return linked;
  }
  return code ? Failed(from, to, code) : absl::OkStatus();
}

}  // namespace baton::controller
