#include "sdk/common/process/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

extern char** environ;

namespace baton {
namespace {

constexpr int kReport = 3;  // in the child: where a failure is told
constexpr int kPassed = kSpawnPassedFd;

enum class Failure : int { kDirectory, kProgram, kOther };

/// The child's message to its parent if it cannot become the program.
struct SpawnReport {
  Failure failure = Failure::kOther;
  int error = 0;  // errno
};

/// Everything that the child needs, made before the fork: the child must not allocate.
struct Prepared {
  const SpawnOptions& options;
  std::vector<char*> arguments, environment;
  pid_t parent = 0;
  // All above kPassed.
  int streams[3] = {-1, -1, -1};
  int report = -1;
  int passed = -1;  // -1: none
};

/// As execve wants them; they point into `words`.
std::vector<char*> PointersTo(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

[[noreturn]] void GiveUp(int report, Failure failure) {
  const SpawnReport told = {failure, errno};
  [[maybe_unused]] const ssize_t written = ::write(report, &told, sizeof(told));
  ::_exit(127);
}

bool LimitTo(__rlimit_resource resource, uint64_t most) {
  if (most == 0) return true;
  rlimit limit;
  if (::getrlimit(resource, &limit) != 0) return false;
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, most);  // more than that it may not anyway
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(resource, &limit) == 0;
}

// The child, which has the memory of its parent until it is the program: only system calls, and no
// write to what the parent reads.
[[noreturn]] void BecomeProgram(const Prepared& prepared) {
  const SpawnOptions& options = prepared.options;
  if (options.own_group) ::setpgid(0, 0);
  if (options.death_signal != 0) {
    ::prctl(PR_SET_PDEATHSIG, options.death_signal);
    if (::getppid() != prepared.parent) ::_exit(127);  // the parent died before
  }
  for (int fd = 0; fd < 3; ++fd) {
    if (::dup2(prepared.streams[fd], fd) < 0) GiveUp(prepared.report, Failure::kOther);
  }
  if (::dup3(prepared.report, kReport, O_CLOEXEC) < 0) GiveUp(prepared.report, Failure::kOther);
  if (prepared.passed >= 0 && ::dup2(prepared.passed, kPassed) < 0) {
    GiveUp(kReport, Failure::kOther);
  }
  const int first_closed = prepared.passed >= 0 ? kPassed + 1 : kReport + 1;
  ::close_range(first_closed, ~0U, 0);
  for (int number = 1; number < NSIG; ++number) {
    if (number != SIGKILL && number != SIGSTOP) ::signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (!LimitTo(RLIMIT_AS, options.memory_bytes) || !LimitTo(RLIMIT_CPU, options.cpu_seconds)) {
    GiveUp(kReport, Failure::kOther);
  }
  if (!options.working_dir.empty() && ::chdir(options.working_dir.c_str()) != 0) {
    GiveUp(kReport, Failure::kDirectory);
  }
  ::execve(prepared.arguments[0], prepared.arguments.data(), prepared.environment.data());
  GiveUp(kReport, Failure::kProgram);
}

// The parent stands still until the child is the program or has ended. Signals wait meanwhile: a
// handler of the parent must not run in the child, on the parent's memory.
pid_t ForkInto(const Prepared& prepared) {
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork)
  if (pid == 0) BecomeProgram(prepared);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

/// Closes what it holds.
class Descriptors {
 public:
  ~Descriptors() {
    for (const int fd : fds_) ::close(fd);
  }
  int Add(int fd) {
    if (fd >= 0) fds_.push_back(fd);
    return fd;
  }

 private:
  std::vector<int> fds_;
};

absl::Status CannotStart(const SpawnOptions& options, int error) {
  return absl::UnavailableError(
      absl::StrCat("cannot start ", options.arguments[0], ": ", std::strerror(error)));
}

absl::Status StatusOf(const SpawnReport& told, const SpawnOptions& options) {
  switch (told.failure) {
    case Failure::kDirectory:
      return absl::NotFoundError(absl::StrCat("cannot enter the working directory ",
                                              options.working_dir, ": ",
                                              std::strerror(told.error)));
    case Failure::kProgram:
      return absl::NotFoundError(
          absl::StrCat("cannot run ", options.arguments[0], ": ", std::strerror(told.error)));
    case Failure::kOther:
      break;
  }
  return CannotStart(options, told.error);
}

}  // namespace

absl::StatusOr<pid_t> Spawn(const SpawnOptions& options) {
  Prepared prepared{options, PointersTo(options.arguments), {}};
  if (options.environment.has_value()) {
    prepared.environment = PointersTo(*options.environment);
  } else {
    for (char** entry = environ; *entry != nullptr; ++entry) prepared.environment.push_back(*entry);
    prepared.environment.push_back(nullptr);
  }
  prepared.parent = ::getpid();
  Descriptors mine;
  // Above the streams, so that no dup2 in the child overwrites what is still to be copied.
  const auto above = [&mine](int fd) {
    return mine.Add(::fcntl(fd, F_DUPFD_CLOEXEC, kPassed + 1));
  };
  const int given[3] = {options.stdin_fd, options.stdout_fd, options.stderr_fd};
  for (int i = 0; i < 3; ++i) {
    const int from = given[i] >= 0 ? given[i] : mine.Add(::open("/dev/null", O_RDWR | O_CLOEXEC));
    prepared.streams[i] = from < 0 ? -1 : above(from);
    if (prepared.streams[i] < 0) return CannotStart(options, errno);
  }
  if (options.passed_fd >= 0) {
    prepared.passed = above(options.passed_fd);
    if (prepared.passed < 0) return CannotStart(options, errno);
  }
  int pipe[2] = {-1, -1};
  if (::pipe2(pipe, O_CLOEXEC) != 0) return CannotStart(options, errno);
  mine.Add(pipe[0]);
  prepared.report = ::fcntl(pipe[1], F_DUPFD_CLOEXEC, kPassed + 1);
  ::close(pipe[1]);
  if (prepared.report < 0) return CannotStart(options, errno);

  const pid_t pid = ForkInto(prepared);
  const int error = errno;
  ::close(prepared.report);
  if (pid < 0) return CannotStart(options, error);
  // The end of the pipe's other side, which execve closes: the program runs.
  SpawnReport told;
  ssize_t got = 0;
  do {
    got = ::read(pipe[0], &told, sizeof(told));
  } while (got < 0 && errno == EINTR);
  if (got == 0) return pid;
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return StatusOf(told, options);
}

}  // namespace baton
