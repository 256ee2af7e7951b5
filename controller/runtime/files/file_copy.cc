#include "controller/runtime/files/file_copy.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "controller/runtime/files/file_hasher.h"
#include "sdk/common/base/status_macros.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBlock = size_t{1} << 20;

absl::Status CopyError(const fs::path& path, int error) {
  const std::error_code code(error, std::generic_category());
  const std::string message =
      absl::StrCat("cannot copy or read ", path.string(), ": ", code.message());
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return absl::ResourceExhaustedError(message);
  }
  return absl::UnavailableError(message);
}

// A regular file opened for reading.
struct OpenFile {
  int fd = -1;
  int64_t size = 0;
  OpenFile() = default;
  OpenFile(OpenFile&& other) noexcept : fd(std::exchange(other.fd, -1)), size(other.size) {}
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
  }
};

absl::StatusOr<OpenFile> OpenRegular(const fs::path& path) {
  OpenFile file;
  // A pipe at this path must not block the thread. A file whose lease another process holds may
  // block it, as long as the system allows.
  file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.fd < 0 && errno == EWOULDBLOCK) file.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file.fd < 0) return CopyError(path, errno);
  struct stat is = {};
  if (::fstat(file.fd, &is) != 0) return CopyError(path, errno);
  if (!S_ISREG(is.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), " is not a regular file"));
  }
  file.size = is.st_size;
  return file;
}

absl::Status WriteAt(int fd, const char* bytes, size_t size, int64_t at, const fs::path& path) {
  while (size > 0) {
    const ssize_t n = ::pwrite(fd, bytes, size, at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return CopyError(path, n < 0 ? errno : EIO);
    bytes += n;
    size -= static_cast<size_t>(n);
    at += n;
  }
  return absl::OkStatus();
}

// Hashes all bytes of `from`; with `to` ≥ 0, also writes there the bytes outside of holes.
absl::StatusOr<std::string> Pass(const OpenFile& from, const fs::path& name, int to,
                                 const std::function<bool()>& stop) {
  FileHasher hasher;
  std::vector<char> block(kBlock);
  const std::vector<char> zeros(kBlock, 0);
  int64_t at = 0;
  while (at < from.size) {
    if (stop && stop()) return absl::CancelledError("the copy is not wanted any more");
    // A file system without holes reports everything as data.
    int64_t data = ::lseek(from.fd, at, SEEK_DATA);
    if (data < 0) data = errno == ENXIO ? from.size : at;
    if (data > at) {
      const int64_t hole = std::min<int64_t>({data - at, from.size - at, int64_t{kBlock}});
      hasher.Add(zeros.data(), static_cast<size_t>(hole));
      at += hole;
      continue;
    }
    int64_t end = ::lseek(from.fd, at, SEEK_HOLE);  // of the data
    if (end <= at) end = from.size;
    const auto wanted =
        static_cast<size_t>(std::min<int64_t>({end - at, from.size - at, int64_t{kBlock}}));
    const ssize_t n = ::pread(from.fd, block.data(), wanted, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return CopyError(name, errno);
    if (n == 0) {
      return absl::UnavailableError(absl::StrCat(name.string(), " was cut while it was read"));
    }
    hasher.Add(block.data(), static_cast<size_t>(n));
    if (to >= 0) {
      BATON_RETURN_IF_ERROR(WriteAt(to, block.data(), static_cast<size_t>(n), at, name));
    }
    at += n;
  }
  return hasher.Digest();
}

}  // namespace

bool IsOwnFile(const fs::path& file) {
  struct stat is = {};
  if (::stat(file.c_str(), &is) != 0 || !S_ISREG(is.st_mode)) return false;
  return is.st_uid == ::geteuid() && (is.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

absl::StatusOr<std::string> HashOfFile(const fs::path& file, const std::function<bool()>& stop) {
  BATON_ASSIGN_OR_RETURN(const OpenFile open, OpenRegular(file));
  return Pass(open, file, -1, stop);
}

absl::StatusOr<std::string> CopyAndHash(const fs::path& from, const fs::path& to,
                                        const std::function<bool()>& stop) {
  BATON_ASSIGN_OR_RETURN(const OpenFile source, OpenRegular(from));
  const int fd = ::open(to.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return CopyError(to, errno);
  bool whole = false;
  const absl::Cleanup finish = [fd, &whole, &to] {
    ::close(fd);
    if (!whole) ::unlink(to.c_str());
  };
  // A reflink takes no space, and later changes of `from` do not change it: the hashed bytes stay.
  const bool cloned = ::ioctl(fd, FICLONE, source.fd) == 0;
  absl::StatusOr<std::string> hash = std::string();
  if (cloned) {
    hash = HashOfFile(to, stop);
  } else {
    if (::ftruncate(fd, source.size) != 0) return CopyError(to, errno);
    hash = Pass(source, from, fd, stop);
  }
  if (hash.ok() && ::fsync(fd) != 0) return CopyError(to, errno);
  whole = hash.ok();
  return hash;
}

}  // namespace baton::controller
