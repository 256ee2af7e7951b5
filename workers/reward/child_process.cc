#include "workers/reward/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sdk/base/clock.h"
#include "sdk/base/spawn.h"
#include "sdk/base/status_macros.h"

namespace baton::reward {
namespace {

absl::Status SystemError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, ": ", std::strerror(errno)));
}

// Three pipes; [i][0] is read from. And a file for the child.
class Pipes {
 public:
  ~Pipes() {
    if (passed >= 0) close(passed);
    for (auto& pipe : fds) {
      for (const int fd : pipe) {
        if (fd >= 0) close(fd);
      }
    }
  }
  absl::Status Open() {
    for (auto& pipe : fds) {
      if (pipe2(pipe, O_CLOEXEC) != 0) return SystemError("make a pipe");
    }
    return absl::OkStatus();
  }
  int Take(int pipe, int end) { return std::exchange(fds[pipe][end], -1); }

  int fds[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
  int passed = -1;
};

/// A file in memory; the caller closes it.
absl::StatusOr<int> FileOf(const std::string& bytes) {
  const int fd = memfd_create("passed", MFD_CLOEXEC);
  if (fd < 0) return SystemError("make a file in memory");
  if (pwrite(fd, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    close(fd);
    return SystemError("write a file in memory");
  }
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const CommandLaunch& launch) {
  Pipes pipes;
  if (absl::Status status = pipes.Open(); !status.ok()) return status;
  SpawnOptions options;
  options.arguments = launch.arguments;
  options.environment = launch.environment;
  options.working_dir = launch.working_dir;
  options.stdin_fd = pipes.fds[0][0];
  options.stdout_fd = pipes.fds[1][1];
  options.stderr_fd = pipes.fds[2][1];
  options.own_group = true;
  options.death_signal = SIGKILL;
  options.memory_bytes = launch.limits.memory_bytes;
  options.cpu_seconds = launch.limits.cpu_seconds;
  if (!launch.filter.empty()) {
    BATON_ASSIGN_OR_RETURN(pipes.passed, FileOf(launch.filter));
    options.passed_fd = pipes.passed;
  }
  BATON_ASSIGN_OR_RETURN(const pid_t pid, Spawn(options));
  const int ends[3] = {pipes.Take(0, 1), pipes.Take(1, 0), pipes.Take(2, 0)};
  for (const int fd : ends) fcntl(fd, F_SETFL, O_NONBLOCK);
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, ends[0], ends[1], ends[2]));
}

ChildProcess::~ChildProcess() {
  Kill();
  for (const int fd : fds_) {
    if (fd >= 0) close(fd);
  }
}

void ChildProcess::CloseStdin() {
  if (fds_[0] >= 0) close(std::exchange(fds_[0], -1));
}

bool ChildProcess::WaitFor(absl::Duration timeout) {
  const absl::Time deadline = BootNow() + timeout;
  while (!reaped_) {
    // It is not reaped here: until Kill has ended the group, the number must stay taken.
    siginfo_t info;
    info.si_pid = 0;
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) break;
    if (info.si_pid == pid_) break;
    if (BootNow() >= deadline) return false;
    poll(nullptr, 0, 1);
  }
  return true;
}

void ChildProcess::Kill() {
  if (reaped_) return;
  killed_here_ = !WaitFor(absl::ZeroDuration());
  kill(-pid_, SIGKILL);
  while (waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
}

std::string ChildProcess::ExitText() const {
  if (!reaped_) return "is running";
  if (killed_here_) return "was killed";
  if (WIFEXITED(wait_status_)) {
    const int code = WEXITSTATUS(wait_status_);
    // How a shell reports the signal that its command died of.
    return code > 128 && code < 128 + 32
               ? absl::StrCat("exited with code ", code, " (", strsignal(code - 128), ")")
               : absl::StrCat("exited with code ", code);
  }
  const int number = WTERMSIG(wait_status_);
  return absl::StrCat("was killed by signal ", number, " (", strsignal(number), ")");
}

}  // namespace baton::reward
