#include "controller/runtime/files/trash.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "sdk/common/base/log.h"
#include "sdk/common/process/low_priority.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

// The thread pauses after each piece, so that the store's syncs do not queue behind removals.
constexpr size_t kRemovedAtOnce = 200;
constexpr absl::Duration kRest = absl::Milliseconds(5);
constexpr absl::Duration kLookAgain = absl::Milliseconds(200);

fs::path TrashOf(const fs::path& data_root) { return data_root / "trash"; }

// A name that no entry of the trash has. The end of the old name tells an operator what it was.
std::string NameInTrash(absl::string_view old_name) {
  static std::atomic<uint64_t> moved{0};
  constexpr size_t kShown = 100;
  return absl::StrCat(absl::Hex(absl::GetCurrentTimeNanos()), "-", ++moved, "-",
                      old_name.substr(0, kShown));
}

using Folder = std::unique_ptr<DIR, int (*)(DIR*)>;

// Opens the folder of that name, but does not follow a link. Null: it is not a folder.
Folder OpenFolder(int parent, const char* name) {
  const int fd = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR* folder = fd < 0 ? nullptr : ::fdopendir(fd);
  if (folder == nullptr && fd >= 0) ::close(fd);
  return {folder, &::closedir};
}

// The next name in a folder; null: there are no more.
const char* NextName(DIR* folder) {
  while (const dirent* entry = ::readdir(folder)) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
      return entry->d_name;
    }
  }
  return nullptr;
}

// Removes a file, or moves a folder up to the trash: then no call goes deeper than one folder.
bool TakeOut(int trash, int folder, const char* name) {
  if (::unlinkat(folder, name, 0) == 0) return true;
  if (errno != EISDIR && errno != EPERM) return false;
  const std::string to = NameInTrash(name);
  if (::renameat(folder, name, trash, to.c_str()) == 0) return true;
  // A folder that its owner may not write cannot be moved.
  if (const Folder inner = OpenFolder(folder, name); inner != nullptr) {
    ::fchmod(::dirfd(inner.get()), 0700);
  }
  return ::renameat(folder, name, trash, to.c_str()) == 0;
}

// False, with errno: the entry cannot be removed. A folder's contents may be removed only by later
// calls.
bool RemoveEntry(int trash, const std::string& name, size_t* most) {
  --*most;
  if (::unlinkat(trash, name.c_str(), 0) == 0) return true;
  if (errno != EISDIR && errno != EPERM) return false;
  const Folder folder = OpenFolder(trash, name.c_str());
  if (folder == nullptr) return false;
  ::fchmod(::dirfd(folder.get()), 0700);
  while (const char* inside = NextName(folder.get())) {
    if (*most == 0) return true;
    --*most;
    if (!TakeOut(trash, ::dirfd(folder.get()), inside)) return false;
  }
  return ::unlinkat(trash, name.c_str(), AT_REMOVEDIR) == 0;
}

// Removes at most `most` files and folders, except `stuck` ones. False: there are no others.
bool RemoveSome(const fs::path& folder, size_t most, std::set<std::string>* stuck) {
  const Folder trash = OpenFolder(AT_FDCWD, folder.c_str());
  if (trash == nullptr) return false;  // nothing was ever deleted
  const size_t before = most;
  while (most > 0) {
    const char* name = NextName(trash.get());
    if (name == nullptr) break;
    if (stuck->count(name) > 0 || RemoveEntry(::dirfd(trash.get()), name, &most)) continue;
    Log(LogLevel::kWarn, "deleted files stay until the next start",
        {{"path", (folder / name).string()}, {"error", std::strerror(errno)}});
    stuck->insert(name);
  }
  return most < before;
}

}  // namespace

absl::Status MoveToTrash(const fs::path& data_root, const fs::path& path) {
  const fs::path trash = TrashOf(data_root);
  const fs::path to = trash / NameInTrash(path.filename().string());
  std::error_code code;
  fs::rename(path, to, code);
  if (code == std::errc::no_such_file_or_directory) {
    std::error_code missing;
    if (!fs::exists(fs::symlink_status(path, missing))) return absl::OkStatus();
    fs::create_directory(trash, missing);
    fs::rename(path, to, code);
  }
  if (code == std::errc::cross_device_link) {
    const fs::path beside =
        path.parent_path() / absl::StrCat(kDeletedPrefix, to.filename().string(), kDeletedSuffix);
    fs::rename(path, beside, code);
    std::error_code ignored;
    if (!code) fs::remove_all(beside, ignored);
  }
  if (!code) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot rename ", path.string(), " to ", to.string(), ": ", code.message()));
}

void EmptyTrash(const fs::path& data_root) {
  std::set<std::string> stuck;
  while (RemoveSome(TrashOf(data_root), kRemovedAtOnce, &stuck)) {
  }
}

TrashRemover::TrashRemover(const fs::path& data_root)
    : trash_(TrashOf(data_root)), thread_([this] { Run(); }) {}

TrashRemover::~TrashRemover() {
  {
    absl::MutexLock lock(&mu_);
    stop_ = true;
  }
  thread_.join();
}

void TrashRemover::Run() {
  LowerThreadPriority();
  bool more = true;
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      if (mu_.AwaitWithTimeout(absl::Condition(&stop_), more ? kRest : kLookAgain)) return;
    }
    more = RemoveSome(trash_, kRemovedAtOnce, &stuck_);
  }
}

}  // namespace baton::controller
