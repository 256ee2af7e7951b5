#include "controller/runtime/files/folders.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/runtime/files/file_copy.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

absl::Status Failed(const fs::path& from, const fs::path& to, const std::error_code& code) {
  const std::string message = absl::StrCat("cannot keep a copy of ", from.string(), " as ",
                                           to.string(), ": ", code.message());
  return code == std::errc::no_space_on_device ? absl::ResourceExhaustedError(message)
                                               : absl::UnavailableError(message);
}

fs::path Canonical(const fs::path& path) {
  std::error_code code;
  const fs::path real = fs::weakly_canonical(path, code);
  return code ? fs::path() : real;  // below nothing
}

// A name beside `to` that no other call uses.
fs::path NameBeside(const fs::path& to) {
  static std::atomic<uint64_t> counter{0};
  return to.parent_path() / absl::StrCat(".", to.filename().string(), ".link-", ++counter);
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

absl::StatusOr<std::vector<fs::directory_entry>> ListFolder(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    entries.push_back(*entry);
  }
  if (!code || code == std::errc::no_such_file_or_directory || code == std::errc::not_a_directory) {
    return entries;
  }
  return absl::UnavailableError(
      absl::StrCat("cannot list the folder ", folder.string(), ": ", code.message()));
}

bool IsBelow(const fs::path& path, const fs::path& folder) {
  const fs::path real = Canonical(path);
  const fs::path real_folder = Canonical(folder);
  if (real.empty() || real_folder.empty()) return false;
  const auto [end, rest] =
      std::mismatch(real_folder.begin(), real_folder.end(), real.begin(), real.end());
  // The canonical path of a folder has no empty last part; that of a missing one may have it.
  return end == real_folder.end() || (std::next(end) == real_folder.end() && end->empty());
}

absl::Status SyncFolder(const fs::path& folder) { return SyncPath(folder, O_DIRECTORY); }

absl::Status SyncFile(const fs::path& file) { return SyncPath(file, 0); }

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
  if (!fs::is_regular_file(from, code)) {
    return absl::InvalidArgumentError(absl::StrCat(from.string(), " is not a file"));
  }
  if (fs::equivalent(from, to, code)) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(MakeFolder(to.parent_path()));
  const fs::path temporary = NameBeside(to);
  fs::remove(temporary, code);  // left by an earlier process
  // a hard link to a symbolic link would follow its target
  const fs::path real = fs::canonical(from, code);
  bool linked = !code && IsOwnFile(real);
  if (linked) {
    fs::create_hard_link(real, temporary, code);
    linked = !code;
  }
  if (!linked) {
    const absl::Status copied = CopyAndHash(real, temporary).status();
    if (!copied.ok()) {
      return absl::Status(copied.code(), absl::StrCat("cannot keep a copy of ", from.string(),
                                                      " as ", to.string(), ": ", copied.message()));
    }
  }
  fs::rename(temporary, to, code);
  if (!code) return SyncFolder(to.parent_path());
  const absl::Status failed = Failed(from, to, code);
  fs::remove(temporary, code);
  return failed;
}

absl::Status LinkFolder(const fs::path& from, const fs::path& to) {
  if (IsBelow(from, to) || IsBelow(to, from)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot copy ", from.string(), " to ",
                                                   to.string(), ": one of them lies in the other"));
  }
  std::error_code code;
  if (fs::exists(fs::symlink_status(to, code)) && !fs::is_empty(to, code)) {
    return absl::AlreadyExistsError(absl::StrCat(to.string(), " exists and is not empty"));
  }
  BATON_RETURN_IF_ERROR(MakeFolder(to));
  for (fs::recursive_directory_iterator it(from, code), end; !code && it != end;
       it.increment(code)) {
    std::error_code unknown;
    if (it->is_symlink(unknown) && (it->is_directory(unknown) || !IsBelow(it->path(), from))) {
      return absl::InvalidArgumentError(
          absl::StrCat(it->path().string(), " is a link that leads out of ", from.string(),
                       ", or to a folder; put the files themselves there"));
    }
    if (it->is_directory(unknown)) continue;
    const absl::Status linked = LinkFile(it->path(), to / it->path().lexically_relative(from));
    if (!linked.ok()) return linked;
  }
  return code ? Failed(from, to, code) : absl::OkStatus();
}

}  // namespace baton::controller
