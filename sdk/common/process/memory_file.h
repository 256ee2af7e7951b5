// A file without a name, in memory.
#ifndef BATON_SDK_COMMON_PROCESS_MEMORY_FILE_H_
#define BATON_SDK_COMMON_PROCESS_MEMORY_FILE_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>

namespace baton {

/// Goes with the object and the processes that have it open. All of them append. `fd` is -1 when
/// the system gave none; such a file is empty, and writing to it fails. Copies are not made.
class MemoryFile {
 public:
  /// `name` is for debugging alone.
  explicit MemoryFile(const char* name) : fd_(::memfd_create(name, MFD_CLOEXEC)) {
    if (fd_ >= 0) ::fcntl(fd_, F_SETFL, O_APPEND);
  }
  ~MemoryFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int fd() const { return fd_; }
  off_t size_bytes() const {
    struct stat found = {};
    return ::fstat(fd_, &found) == 0 ? found.st_size : 0;
  }
  /// Makes it empty, for all who have it open.
  void Clear() const { static_cast<void>(!::ftruncate(fd_, 0)); }
  /// The last bytes, `limit` at most.
  std::string ReadEnd(off_t limit) const {
    const off_t bytes = size_bytes(), begin = std::max<off_t>(bytes - limit, 0);
    std::string out(static_cast<size_t>(bytes - begin), '\0');
    size_t done = 0;
    while (done < out.size()) {
      const ssize_t n =
          ::pread(fd_, out.data() + done, out.size() - done, begin + static_cast<off_t>(done));
      if (n <= 0) break;
      done += static_cast<size_t>(n);
    }
    out.resize(done);
    return out;
  }

 private:
  const int fd_;
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_PROCESS_MEMORY_FILE_H_
