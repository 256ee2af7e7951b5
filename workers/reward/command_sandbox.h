// The sandbox between a command of a user's own and the machine that runs it.
//
// Under bubblewrap a command has user, process, network and mount namespaces of its own. It sees
// the system's programs and libraries, its working directory and the folders that the operator
// named, all read-only, and an empty folder of its own at /tmp, which is its HOME. It sees no other
// file: not the worker's token, not its home. It can write nowhere but in /tmp (where its shared
// memory lies too), which has a bound. It has no network, no environment but a list, and limits of
// memory and processor time. Without a sandbox only the environment and the limits remain: such a
// command can do whatever the worker's user can.
#ifndef BATON_WORKERS_REWARD_COMMAND_SANDBOX_H_
#define BATON_WORKERS_REWARD_COMMAND_SANDBOX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton::reward {

/// Limits of each process of a command. 0: none.
struct CommandLimits {
  /// Address space. Under bubblewrap a quarter of it is for the files in /tmp (1 GiB if there is no
  /// limit), and the rest is the address space. A process that the command starts has an address
  /// space of its own, and shares /tmp.
  uint64_t memory_bytes = uint64_t{4} << 30;
  uint64_t cpu_seconds = 3600;  ///< Of each process, children too; it is killed then.
};

struct SandboxOptions {
  enum class Kind { kNone, kBubblewrap };
  Kind kind = Kind::kNone;
  std::string program = "bwrap";  ///< For kBubblewrap: a path, or a name to look for in PATH.
  std::vector<std::string>
      readable;  ///< Absolute paths that commands may read beside the system's.
  /// Absolute paths that no command may read, wherever its working directory is: token files, keys.
  std::vector<std::string> hidden;
  CommandLimits limits;
};

/// All that it takes to start a process.
struct CommandLaunch {
  std::vector<std::string> arguments;    ///< The first is the program's path.
  std::vector<std::string> environment;  ///< NAME=VALUE.
  std::string working_dir;               ///< Entered before the program starts; empty: this one's.
  CommandLimits limits;                  ///< `memory_bytes` is the address space alone.
  std::string filter;                    ///< For the program, as descriptor kSpawnPassedFd.
};

/// Immutable; any thread.
class CommandSandbox {
 public:
  /// Under bubblewrap a trivial command is run in it first. FAILED_PRECONDITION, with what to do:
  /// the program is missing, or the machine does not let it work.
  static absl::StatusOr<std::shared_ptr<const CommandSandbox>> Create(SandboxOptions options);
  /// No sandbox, with the standard limits.
  static std::shared_ptr<const CommandSandbox> None();

  /// `/bin/sh -c COMMAND` in `working_dir` (absolute; empty: under bubblewrap the empty folder,
  /// else this process's). INVALID_ARGUMENT: it is no directory here, or one whose content commands
  /// may not see: a part of the system, or one below a hidden path.
  absl::StatusOr<CommandLaunch> Prepare(const std::string& command,
                                        const std::string& working_dir) const;

  SandboxOptions::Kind kind() const { return options_.kind; }

 private:
  explicit CommandSandbox(SandboxOptions options) : options_(std::move(options)) {}
  absl::Status Check() const;
  uint64_t TemporaryBytes() const;
  absl::StatusOr<std::vector<std::string>> BwrapArguments(const std::string& working_dir) const;

  const SandboxOptions options_;
  std::string filter_;  // MakeMemoryFilter's; constant after Create
};

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_COMMAND_SANDBOX_H_
