#include "relay/weights/file_io.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/file_error.h"
#include "sdk/common/base/status_macros.h"

namespace baton::relay {
namespace {

absl::Status IoError(int error, absl::string_view what, absl::string_view path) {
  if (IsDiskFull(error)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(what, " ", path, ": the disk is full; free space and try again"));
  }
  return absl::ErrnoToStatus(error, absl::StrCat(what, " ", path));
}

std::string ParentDirectory(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

absl::StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  std::string temporary = absl::StrCat(path, ".tmp-XXXXXX");
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return IoError(errno, "cannot create", path);
  fchmod(fd, 0644);
  return AtomicFile(path, std::move(temporary), fd);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)) {}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

absl::Status AtomicFile::Append(absl::Span<const uint8_t> bytes) {
  if (fd_ < 0) return absl::FailedPreconditionError(absl::StrCat(path_, " is committed already"));
  while (!bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return IoError(errno, "cannot write", path_);
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  if (fd_ < 0) return absl::FailedPreconditionError(absl::StrCat(path_, " is committed already"));
  if (fsync(fd_) != 0) {
    return IoError(errno, "cannot sync", path_);
  }
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return IoError(errno, "cannot rename to", path_);
  }
  close(std::exchange(fd_, -1));
  return SyncDirectory(ParentDirectory(path_));
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view content) {
  BATON_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  BATON_RETURN_IF_ERROR(file.Append(
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(content.data()), content.size())));
  return file.Commit();
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO is not waited for
  if (fd < 0) return IoError(errno, "cannot open", path);
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int error = errno;
      close(fd);
      if (count < 0) return IoError(error, "cannot read", path);
      return content;
    }
    if (static_cast<int64_t>(content.size()) + count > max_bytes) {
      close(fd);
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is larger than the ", max_bytes, " bytes allowed for it"));
    }
    content.append(buffer, static_cast<size_t>(count));
  }
}

absl::Status SyncDirectory(const std::string& dir) {
  const int fd = open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return IoError(errno, "cannot open", dir);
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  return result == 0 ? absl::OkStatus() : IoError(error, "cannot sync", dir);
}

}  // namespace baton::relay
