#include "controller/runtime/files/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace baton::controller {
namespace {

int OpenToLock(const std::filesystem::path& folder) {
  return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

// False, with errno: it is not locked.
bool Lock(int fd, int how) {
  int done = -1;
  do {
    done = ::flock(fd, how);
  } while (done != 0 && errno == EINTR);
  return done == 0;
}

}  // namespace

FolderLock FolderLock::ForReading(const std::filesystem::path& folder) {
  FolderLock lock(OpenToLock(folder));
  if (lock.fd_ >= 0) (void)Lock(lock.fd_, LOCK_SH);
  return lock;
}

std::optional<FolderLock> FolderLock::ForRemoval(const std::filesystem::path& folder) {
  FolderLock lock(OpenToLock(folder));
  if (lock.fd_ >= 0 && !Lock(lock.fd_, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
    return std::nullopt;
  }
  return lock;
}

FolderLock::FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace baton::controller
