#include "workers/reward/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/process/spawn.h"

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
  Kill();  // Before its pipes are closed, so that it dies of nothing else.
  for (const int fd : fds_) {
    if (fd >= 0) close(fd);
  }
}

void ChildProcess::CloseStdin() {
  if (fds_[0] >= 0) close(std::exchange(fds_[0], -1));
}

std::string ChildProcess::ExitText() {
  const auto end = group_.WaitFor(absl::ZeroDuration());
  if (!end.has_value()) return "was killed";
  if (end->unknown) return "ended";
  if (end->killed) {
    return absl::StrCat("was killed by signal ", end->number, " (", strsignal(end->number), ")");
  }
  // The way a shell reports the signal that its command died of.
  return end->number > 128 && end->number < 128 + 32
             ? absl::StrCat("exited with code ", end->number, " (", strsignal(end->number - 128),
                            ")")
             : absl::StrCat("exited with code ", end->number);
}

}  // namespace baton::reward
