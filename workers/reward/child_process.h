// A command as a child process with pipes on its three streams, in a process group of its
// own, so that whatever it starts can be ended with it.
#ifndef BATON_WORKERS_REWARD_CHILD_PROCESS_H_
#define BATON_WORKERS_REWARD_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "sdk/common/process/process_group.h"
#include "workers/reward/command_sandbox.h"

namespace baton::reward {

/// One thread, which must live as long as the process: on Linux the kernel kills the command when
/// the thread that started it ends.
class ChildProcess {
 public:
  /// Runs the program of `launch` with its environment, in its working directory, under its
  /// limits, with no open file but the pipes.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const CommandLaunch& launch);
  /// Kills the whole group and waits for the command.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // This side's ends, non-blocking; -1 when closed.
  int stdin_fd() const { return fds_[0]; }
  int stdout_fd() const { return fds_[1]; }
  int stderr_fd() const { return fds_[2]; }
  void CloseStdin();

  /// True when the command itself has ended, at the latest after `timeout`.
  [[nodiscard]] bool WaitFor(absl::Duration timeout) { return group_.WaitFor(timeout).has_value(); }
  /// SIGKILL to the group, then waits for the command. May be called again.
  void Kill() { group_.Kill(); }
  /// The way the process ended, after Kill: "exited with code 3", "was killed by signal 11 (…)".
  [[nodiscard]] std::string ExitText();

 private:
  ChildProcess(pid_t pid, int in, int out, int err) : group_(pid), fds_{in, out, err} {}

  ProcessGroup group_;
  int fds_[3];
};

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_CHILD_PROCESS_H_
