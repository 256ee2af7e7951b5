#include "relay/segment/shared_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace baton::relay {
namespace {

constexpr int kUserOnly = 0600;  // Other users of the machine must not read weights.

absl::Status SystemError(int error, absl::string_view what, absl::string_view path) {
  return absl::ErrnoToStatus(error, absl::StrCat(what, " ", path));
}

/// posix_fallocate that survives signals.
int Reserve(int fd, uint64_t size_bytes) {
  int error;
  do {
    error = posix_fallocate(fd, 0, static_cast<off_t>(size_bytes));
  } while (error == EINTR);
  return error;
}

absl::StatusOr<uint8_t*> Map(int fd, uint64_t size_bytes, const std::string& path) {
  void* data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (data == MAP_FAILED) return SystemError(errno, "cannot map", path);
  return static_cast<uint8_t*>(data);
}

}  // namespace

absl::StatusOr<std::unique_ptr<SharedFile>> SharedFile::Create(const std::string& path,
                                                               uint64_t size_bytes) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kUserOnly);
  if (fd < 0) return SystemError(errno, "cannot create", path);
  absl::StatusOr<uint8_t*> data(nullptr);
  if (const int error = Reserve(fd, size_bytes); error != 0) {
    data = error == ENOSPC || error == ENOMEM || error == EFBIG
               ? absl::ResourceExhaustedError(absl::StrCat("shared memory is full: no room for ",
                                                           size_bytes, " bytes at ", path))
               : SystemError(error, "cannot reserve memory for", path);
  } else {
    data = Map(fd, size_bytes, path);
  }
  close(fd);
  if (!data.ok()) {
    unlink(path.c_str());
    return data.status();
  }
  return std::unique_ptr<SharedFile>(new SharedFile(path, *data, size_bytes, /*owner=*/true));
}

absl::StatusOr<std::unique_ptr<SharedFile>> SharedFile::Open(const std::string& path,
                                                             uint64_t size_bytes) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return SystemError(errno, "cannot open", path);
  struct stat info {};
  absl::StatusOr<uint8_t*> data(nullptr);
  if (fstat(fd, &info) != 0) {
    data = SystemError(errno, "cannot read the size of", path);
  } else if (static_cast<uint64_t>(info.st_size) != size_bytes) {
    data = absl::FailedPreconditionError(
        absl::StrCat(path, " has ", info.st_size, " bytes, not ", size_bytes));
  } else {
    data = Map(fd, size_bytes, path);
  }
  close(fd);
  if (!data.ok()) return data.status();
  return std::unique_ptr<SharedFile>(new SharedFile(path, *data, size_bytes, /*owner=*/false));
}

SharedFile::~SharedFile() {
  munmap(data_, mapped_bytes_);
  if (owner_) unlink(path_.c_str());
}

absl::Status SharedFile::Reuse(const std::string& path, uint64_t size_bytes) {
  if (size_bytes > size_bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, " has ", size_bytes_, " bytes and can not grow to ", size_bytes));
  }
  if (size_bytes < size_bytes_ && truncate(path_.c_str(), static_cast<off_t>(size_bytes)) != 0) {
    return SystemError(errno, "cannot shorten", path_);
  }
  size_bytes_ = size_bytes;
  if (rename(path_.c_str(), path.c_str()) != 0) return SystemError(errno, "cannot rename", path_);
  path_ = path;
  return absl::OkStatus();
}

}  // namespace baton::relay
