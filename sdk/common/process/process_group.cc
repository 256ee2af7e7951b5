#include "sdk/common/process/process_group.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>

#include "sdk/common/base/clock.h"

namespace baton {

std::optional<ProcessEnd> ProcessGroup::WaitFor(absl::Duration timeout) {
  const absl::Time deadline = BootNow() + timeout;
  while (!reaped_ && !end_.has_value()) {
    siginfo_t info = {};
    const int asked =
        ::waitid(P_PID, static_cast<id_t>(leader_), &info, WEXITED | WNOHANG | WNOWAIT);
    if (asked != 0) {
      // Someone else has reaped it, and its number may be a stranger's by now.
      reaped_ = true;
      end_.emplace().unknown = true;
    } else if (info.si_pid == leader_) {
      end_ = ProcessEnd{info.si_code != CLD_EXITED, info.si_status};
    } else if (BootNow() >= deadline) {
      break;
    } else {
      ::poll(nullptr, 0, 1);
    }
  }
  return end_;
}

void ProcessGroup::Terminate() {
  WaitFor(absl::ZeroDuration());
  if (!reaped_) ::kill(leader_, SIGTERM);
}

void ProcessGroup::End(absl::Duration grace) {
  Terminate();
  WaitFor(grace);
  Kill();
}

void ProcessGroup::Kill() {
  WaitFor(absl::ZeroDuration());
  if (reaped_) return;
  ::kill(-leader_, SIGKILL);
  while (::waitpid(leader_, nullptr, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
}

}  // namespace baton
