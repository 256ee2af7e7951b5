// The one way in which Baton starts another program beside itself.
#ifndef BATON_SDK_COMMON_PROCESS_SPAWN_H_
#define BATON_SDK_COMMON_PROCESS_SPAWN_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

inline constexpr int kSpawnPassedFd = 4;

struct SpawnOptions {
  std::vector<std::string> arguments;  ///< The first is the program's path; PATH is not searched.
  std::optional<std::vector<std::string>> environment;  ///< "NAME=value"; unset: this process's.
  std::string working_dir;                              ///< Empty: this process's.
  /// Descriptors that become the standard streams of the child; -1: /dev/null. The caller keeps
  /// them.
  int stdin_fd = -1, stdout_fd = -1, stderr_fd = -1;
  /// The descriptor that becomes the child's kSpawnPassedFd; -1: none. The caller keeps it. No
  /// other open file of this process reaches the child.
  int passed_fd = -1;
  bool own_group = false;  ///< The child leads a process group of its own.
  /// The signal that the child gets when the thread that started it ends; 0: none.
  int death_signal = 0;
  uint64_t memory_bytes = 0;  ///< Limit of address space; 0: this process's.
  uint64_t cpu_seconds = 0;   ///< Limit of processor time; 0: this process's.
};

/// Starts the program with no signal blocked and none ignored, and returns when the program runs.
/// The caller reaps the child. Thread-safe.
///
/// Does not copy the memory of this process (vfork), so a controller of many GB starts a program as
/// fast as a small one.
///
/// NOT_FOUND: the program or the working directory cannot be opened; the message names it.
/// UNAVAILABLE: the machine lacks processes or descriptors.
[[nodiscard]] absl::StatusOr<pid_t> Spawn(const SpawnOptions& options);

}  // namespace baton

#endif  // BATON_SDK_COMMON_PROCESS_SPAWN_H_
