// The file by which other commands find a running `baton up`: `state.json` in its state folder.
#ifndef BATON_SDK_CLI_SHARED_STATE_FILE_H_
#define BATON_SDK_CLI_SHARED_STATE_FILE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::cli {

struct ProcessState {
  std::string name;  ///< "controller", "relay", "rollout-0", …
  int pid = 0;       ///< 0: not running just now.
  int restarts = 0;
  int64_t started = 0;  ///< Unix seconds.
  std::string log;
};

struct ClusterState {
  int supervisor = 0;  ///< Pid.
  std::string controller, http, relay;
  bool ready = false;
  std::string error;  ///< The reason why `baton up` failed to start.
  std::vector<ProcessState> processes;
};

/// Atomic: readers see the old file or the new one.
absl::Status WriteStateFile(const std::string& state_dir, const ClusterState& state);
/// NotFound when nothing was started there.
absl::StatusOr<ClusterState> ReadStateFile(const std::string& state_dir);
void RemoveStateFile(const std::string& state_dir);

/// Held by the supervisor of a state folder for as long as it lives. (A pid in a file may long be
/// somebody else's.) A forked child holds it too; programs that it starts do not.
class StateLock {
 public:
  /// FailedPrecondition: another supervisor has it.
  static absl::StatusOr<StateLock> Take(const std::string& state_dir);
  StateLock(StateLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  StateLock& operator=(StateLock&&) = delete;
  ~StateLock();

 private:
  explicit StateLock(int fd) : fd_(fd) {}
  int fd_;
};
/// True while a supervisor holds the folder's lock.
bool IsUp(const std::string& state_dir);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_SHARED_STATE_FILE_H_
