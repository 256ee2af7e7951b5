// A child process and what it started, which end together.
#ifndef BATON_SDK_COMMON_PROCESS_PROCESS_GROUP_H_
#define BATON_SDK_COMMON_PROCESS_PROCESS_GROUP_H_

#include <sys/types.h>

#include <optional>

#include "absl/time/time.h"

namespace baton {

/// The way in which a process ended.
struct ProcessEnd {
  bool killed = false;  ///< By a signal.
  int number = 0;       ///< The signal; else the exit code.
  /// Someone else reaped it, so that `killed` and `number` say nothing.
  bool unknown = false;
};

/// Owns a process that leads a group of its own (SpawnOptions::own_group). One thread at a time.
///
/// The leader is reaped when its group has been killed, and not before: until then no other process
/// can get its number, and so the signal reaches no stranger. If someone else reaped it, no signal
/// is sent.
class ProcessGroup {
 public:
  explicit ProcessGroup(pid_t leader) : leader_(leader) {}
  /// Kill.
  ~ProcessGroup() { Kill(); }
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  pid_t leader() const { return leader_; }

  /// The way in which the leader ended by itself; nothing: it still runs after `timeout`, or was
  /// killed by Kill.
  std::optional<ProcessEnd> WaitFor(absl::Duration timeout);
  /// SIGTERM to the leader.
  void Terminate();
  /// Terminate; the leader may use `grace` to end what it started; then Kill.
  void End(absl::Duration grace);
  /// SIGKILL to all, then waits for the end of the leader. May be called again.
  void Kill();

 private:
  const pid_t leader_;
  bool reaped_ = false;
  std::optional<ProcessEnd> end_;  // before Kill
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_PROCESS_PROCESS_GROUP_H_
