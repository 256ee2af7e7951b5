#include "bench/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace baton::bench {
namespace {

bool PollUntil(const std::function<bool()>& done, absl::Duration limit) {
  const absl::Time end = absl::Now() + limit;
  absl::Notification never;
  while (!done()) {
    if (absl::Now() > end) return false;
    never.WaitForNotificationWithTimeout(absl::Milliseconds(5));
  }
  return true;
}

}  // namespace

ChildProcess::ChildProcess(std::vector<std::string> arguments, std::string log)
    : log_(std::move(log)) {
  const auto folder = std::filesystem::canonical("/proc/self/exe").parent_path();
  arguments[0] = (folder / arguments[0]).string();
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const int fd = ::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(fd, STDOUT_FILENO);
    ::dup2(fd, STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(fd);
}

ChildProcess::~ChildProcess() {
  if (ended_) return;
  Signal(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void ChildProcess::Signal(int signal) const {
  if (!ended_) ::kill(pid_, signal);
}

bool ChildProcess::Wait(absl::Duration limit) {
  int status = 0;
  ended_ = ended_ || PollUntil([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, limit);
  return ended_ && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string ChildProcess::Log() const {
  std::ifstream file(log_);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string ChildProcess::WaitForLog(const std::string& key, absl::Duration limit) const {
  std::string text;
  size_t at = std::string::npos;
  const auto found = [&] {
    text = Log();
    at = text.find(key);
    return at != std::string::npos && text.find('\n', at) != std::string::npos;
  };
  if (!PollUntil(found, limit)) return "";
  at += key.size();
  return text.substr(at, text.find_first_of(" \n", at) - at);
}

}  // namespace baton::bench
