// Another program, run by a test or a bench.
#ifndef BATON_SDK_COMMON_PROCESS_TEST_PROCESS_H_
#define BATON_SDK_COMMON_PROCESS_TEST_PROCESS_H_

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/process/spawn.h"

namespace baton {

/// Killed and awaited with the object, so that nothing outlives its test. One thread, which must
/// live as long as the process.
class TestProcess {
 public:
  /// `arguments[0]` is a path. `log` gets standard output and error; empty: those of this process.
  /// Ends this process if the program cannot be run.
  explicit TestProcess(std::vector<std::string> arguments, std::string log = "")
      : log_(std::move(log)) {
    const int file =
        log_.empty() ? -1 : ::open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    SpawnOptions options;
    options.arguments = std::move(arguments);
    options.stdout_fd = log_.empty() ? STDOUT_FILENO : file;
    options.stderr_fd = log_.empty() ? STDERR_FILENO : file;
    options.death_signal = SIGKILL;
    const auto pid = Spawn(options);
    if (file >= 0) ::close(file);
    if (!pid.ok()) {
      std::fprintf(stderr, "%s\n", pid.status().ToString().c_str());
      std::abort();
    }
    pid_ = *pid;
  }
  ~TestProcess() {
    if (ended_) return;
    Signal(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  TestProcess(const TestProcess&) = delete;
  TestProcess& operator=(const TestProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const {
    if (!ended_) ::kill(pid_, signal);
  }
  bool running() {
    if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
    return !ended_;
  }
  /// Exit code, or 128 and the signal that killed it; -1: it still runs after `limit`.
  int Wait(absl::Duration limit = absl::Seconds(10)) {
    if (!Poll([this] { return !running(); }, limit)) return -1;
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }
  /// Everything it has written so far.
  std::string Log() const {
    std::ifstream file(log_, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  /// The text behind `key` up to white space, once its line is in the log; empty: it never came.
  std::string WaitForLog(const std::string& key, absl::Duration limit = absl::Seconds(10)) const {
    std::string text;
    size_t at = std::string::npos;
    const auto found = [&] {
      text = Log();
      at = text.find(key);
      return at != std::string::npos && text.find('\n', at) != std::string::npos;
    };
    if (!Poll(found, limit)) return "";
    at += key.size();
    return text.substr(at, text.find_first_of(" \n", at) - at);
  }

 private:
  static bool Poll(const std::function<bool()>& done, absl::Duration limit) {
    const absl::Time end = BootNow() + limit;
    while (!done()) {
      if (BootNow() > end) return false;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return true;
  }

  const std::string log_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_PROCESS_TEST_PROCESS_H_
