// The real baton-relay, for tests that kill it.
#ifndef BATON_TESTS_SUPPORT_RELAY_RELAY_PROCESS_H_
#define BATON_TESTS_SUPPORT_RELAY_RELAY_PROCESS_H_

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "sdk/common/process/spawn.h"

namespace baton::relay {

/// A running baton-relay on a port of its own choice.
class RelayProcess {
 public:
  explicit RelayProcess(std::vector<std::string> args) {
    args.insert(args.begin(), std::string(std::getenv("BATON_BUILD_DIR")) + "/bin/baton-relay");
    int out[2];
    if (pipe2(out, O_CLOEXEC) != 0) std::abort();
    SpawnOptions options;
    options.arguments = std::move(args);
    options.stdout_fd = options.stderr_fd = out[1];
    const auto pid = Spawn(options);
    if (!pid.ok()) std::abort();
    pid_ = *pid;
    close(out[1]);
    char c = 0;
    while (read(out[0], &c, 1) == 1 && c != '\n') line_ += c;
    close(out[0]);
  }
  ~RelayProcess() {
    if (pid_ > 0) Stop(SIGKILL);
  }

  /// Signals it (0: does not) and waits for its end; the exit code, or minus the signal that ended
  /// it.
  int Stop(int signal) {
    kill(pid_, signal);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// The relay's first line of output.
  const std::string& line() const { return line_; }
  std::string address() const { return line_.substr(line_.rfind(' ') + 1); }

 private:
  pid_t pid_ = 0;
  std::string line_;
};

}  // namespace baton::relay

#endif  // BATON_TESTS_SUPPORT_RELAY_RELAY_PROCESS_H_
