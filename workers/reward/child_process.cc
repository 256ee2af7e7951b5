#include "workers/reward/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace baton::reward {
namespace {

absl::Status SystemError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat("cannot ", what, ": ", std::strerror(errno)));
}

// Three pipes; [i][0] is read from. Every end is above 2, so that dup2 onto 0, 1, 2 is safe.
class Pipes {
 public:
  ~Pipes() {
    for (auto& pipe : fds) {
      for (const int fd : pipe) {
        if (fd >= 0) close(fd);
      }
    }
  }
  absl::Status Open() {
    for (auto& pipe : fds) {
      int raw[2];
      if (pipe2(raw, O_CLOEXEC) != 0) return SystemError("make a pipe");
      for (int end = 0; end < 2; ++end) {
        pipe[end] = raw[end] > 2 ? raw[end] : fcntl(raw[end], F_DUPFD_CLOEXEC, 3);
        if (pipe[end] != raw[end]) close(raw[end]);
        if (pipe[end] < 0) return SystemError("make a pipe");
      }
    }
    return absl::OkStatus();
  }
  int Take(int pipe, int end) { return std::exchange(fds[pipe][end], -1); }

  int fds[3][2] = {{-1, -1}, {-1, -1}, {-1, -1}};
};

/// As execve wants them; they point into `words`.
std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

void Limit(__rlimit_resource resource, uint64_t most) {
  if (most == 0) return;
  rlimit limit;
  if (getrlimit(resource, &limit) != 0) return;
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, most);  // more than that it may not anyway
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(resource, &limit) != 0) _exit(127);
}

// What the child does between fork and exec: only calls that are safe there.
[[noreturn]] void RunChild(const int (&fds)[3], pid_t parent, const CommandLaunch& launch,
                           char* const* arguments, char* const* environment) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  for (int fd = 0; fd < 3; ++fd) dup2(fds[fd], fd);
  close_range(3, ~0U, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD}) signal(number, SIG_DFL);
  Limit(RLIMIT_AS, launch.limits.memory_bytes);
  Limit(RLIMIT_CPU, launch.limits.cpu_seconds);
  if (!launch.working_dir.empty() && chdir(launch.working_dir.c_str()) != 0) {
    constexpr char kMessage[] = "cannot enter the working directory of the command\n";
    if (write(2, kMessage, sizeof(kMessage) - 1) < 0) _exit(126);
    _exit(126);
  }
  execve(arguments[0], arguments, environment);
  _exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const CommandLaunch& launch) {
  Pipes pipes;
  if (absl::Status status = pipes.Open(); !status.ok()) return status;
  const std::vector<char*> environment = Pointers(launch.environment);
  const std::vector<char*> arguments = Pointers(launch.arguments);
  const int child_fds[3] = {pipes.fds[0][0], pipes.fds[1][1], pipes.fds[2][1]};
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return SystemError("start a process");
  if (pid == 0) {
    RunChild(child_fds, parent, launch, arguments.data(), environment.data());
  }
  setpgid(pid, pid);  // here too: parent or child may be first
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
  const absl::Time deadline = absl::Now() + timeout;
  while (!reaped_) {
    // It is not reaped here: until Kill has ended the group, the number must stay taken.
    siginfo_t info;
    info.si_pid = 0;
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) break;
    if (info.si_pid == pid_) break;
    if (absl::Now() >= deadline) return false;
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
