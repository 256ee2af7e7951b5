#include "sdk/cli/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

namespace baton::cli {
namespace {

constexpr absl::Duration kYoung = absl::Seconds(10);
constexpr absl::Duration kCleanUp = absl::Seconds(5);

absl::Duration Backoff(int young_deaths) {
  if (young_deaths <= 1) return absl::ZeroDuration();
  const double seconds = 0.5 * static_cast<double>(1 << std::min(young_deaths - 2, 5));
  return std::min(absl::Seconds(seconds), absl::Seconds(10));
}

// In the child: only what may be called between fork and exec.
[[noreturn]] void Become(const char* const* argv, const char* const* environment, int log,
                         int error_pipe, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::execve(argv[0], const_cast<char* const*>(argv), const_cast<char* const*>(environment));
  const int error = errno;
  [[maybe_unused]] const ssize_t n = ::write(error_pipe, &error, sizeof(error));
  ::_exit(127);
}

}  // namespace

Supervisor::Supervisor(std::vector<ChildSpec> children) {
  for (ChildSpec& spec : children) {
    Child child;
    child.spec = std::move(spec);
    children_.push_back(std::move(child));
  }
}

Supervisor::~Supervisor() {
  if (!stopped_) Stop(absl::Seconds(5));
}

absl::Status Supervisor::Launch(Child& child, absl::Time now) {
  std::vector<const char*> argv;
  for (const std::string& argument : child.spec.command) argv.push_back(argument.c_str());
  argv.push_back(nullptr);
  std::vector<const char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
  for (const std::string& entry : child.spec.environment) environment.push_back(entry.c_str());
  environment.push_back(nullptr);
  const int log = ::open(child.spec.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  int pipe[2] = {-1, -1};
  if (log < 0 || ::pipe2(pipe, O_CLOEXEC) != 0) {
    return absl::InternalError(
        absl::StrCat("cannot start ", child.spec.name, ": ", std::strerror(errno)));
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) Become(argv.data(), environment.data(), log, pipe[1], parent);
  ::close(log);
  ::close(pipe[1]);
  int error = 0;
  const bool failed = pid < 0 || ::read(pipe[0], &error, sizeof(error)) == sizeof(error);
  ::close(pipe[0]);
  if (failed) {
    if (pid > 0) ::waitpid(pid, nullptr, 0);
    return absl::NotFoundError(absl::StrCat("cannot run ", child.spec.command[0], ": ",
                                            std::strerror(pid < 0 ? errno : error)));
  }
  ::setpgid(pid, pid);
  child.pid = pid;
  child.started = now;
  return absl::OkStatus();
}

absl::Status Supervisor::Start() {
  const absl::Time now = absl::Now();
  for (Child& child : children_) {
    const absl::Status status = Launch(child, now);
    if (!status.ok()) {
      Stop(absl::Seconds(5));
      return status;
    }
  }
  return absl::OkStatus();
}

bool Supervisor::Poll(absl::Time now) {
  bool changed = false;
  for (Child& child : children_) {
    int status = 0;
    if (child.pid > 0 && ::waitpid(child.pid, &status, WNOHANG) == child.pid) {
      ::kill(-child.pid, SIGKILL);  // what it started and left behind
      child.pid = 0;
      child.young_deaths = now - child.started < kYoung ? child.young_deaths + 1 : 1;
      child.next_start = now + Backoff(child.young_deaths);
      changed = true;
    }
    if (child.pid == 0 && !stopped_ && now >= child.next_start) {
      ++child.restarts;
      if (!Launch(child, now).ok()) child.next_start = now + absl::Seconds(10);
      changed = true;
    }
  }
  return changed;
}

void Supervisor::Stop(absl::Duration grace) {
  stopped_ = true;
  // Workers first, then what they talk to: no worker logs a loss that is none.
  for (auto child = children_.rbegin(); child != children_.rend(); ++child) {
    if (child->pid > 0) ::kill(child->pid, SIGTERM);
  }
  AwaitEnd(grace);
  for (Child& child : children_) {
    child.spec.command = std::exchange(child.spec.clean_up, {});
    if (!child.spec.command.empty()) Launch(child, absl::Now()).IgnoreError();
  }
  AwaitEnd(kCleanUp);
}

// Kills what is left after `grace`.
void Supervisor::AwaitEnd(absl::Duration grace) {
  const absl::Time end = absl::Now() + grace;
  bool killed = false;
  while (true) {
    bool any = false;
    for (Child& child : children_) {
      if (child.pid <= 0) continue;
      if (::waitpid(child.pid, nullptr, WNOHANG) == child.pid) {
        ::kill(-child.pid, SIGKILL);
        child.pid = 0;
      } else {
        any = true;
      }
    }
    if (!any) return;
    if (!killed && absl::Now() > end) {
      for (Child& child : children_) {
        if (child.pid > 0) ::kill(-child.pid, SIGKILL);
      }
      killed = true;
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
}

std::vector<ProcessState> Supervisor::States() const {
  std::vector<ProcessState> states;
  for (const Child& child : children_) {
    states.push_back({child.spec.name, child.pid, child.restarts,
                      absl::ToUnixSeconds(child.started), child.spec.log});
  }
  return states;
}

int Supervisor::restarts() const {
  int sum = 0;
  for (const Child& child : children_) sum += child.restarts;
  return sum;
}

std::string Supervisor::TailOf(const std::string& name, int lines) const {
  for (const Child& child : children_) {
    if (child.spec.name != name) continue;
    std::ifstream in(child.spec.log);
    std::deque<std::string> tail;
    for (std::string line; std::getline(in, line);) {
      tail.push_back(line);
      if (tail.size() > static_cast<size_t>(lines)) tail.pop_front();
    }
    return absl::StrJoin(tail, "\n");
  }
  return "";
}

}  // namespace baton::cli
