// Files that take their time, for tests.
#ifndef BATON_TESTS_SUPPORT_CONTROLLER_SLOW_FILE_H_
#define BATON_TESTS_SUPPORT_CONTROLLER_SLOW_FILE_H_

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <string>

namespace baton::controller {

/// A file whose opening waits, as on a disk that does not answer, until it is let go; the kernel
/// opens it after /proc/sys/fs/lease-break-time seconds (45) all the same.
class SlowFile {
 public:
  explicit SlowFile(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    std::signal(SIGIO, SIG_IGN);  // told when it is opened
    leased_ = ::fcntl(fd_, F_SETLEASE, F_WRLCK) == 0;
  }
  ~SlowFile() { ::close(fd_); }
  SlowFile(const SlowFile&) = delete;
  bool leased() const { return leased_; }
  void GiveUpLease() { ::fcntl(fd_, F_SETLEASE, F_UNLCK); }

 private:
  const int fd_;
  bool leased_ = false;
};

}  // namespace baton::controller

#endif  // BATON_TESTS_SUPPORT_CONTROLLER_SLOW_FILE_H_
