// `baton-worker` without a subcommand: attaches to a controller and plays roles.
#ifndef BATON_WORKERS_MAIN_SERVE_COMMAND_H_
#define BATON_WORKERS_MAIN_SERVE_COMMAND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "sdk/common/rpc/tls_files.h"

namespace baton {

struct ServeOptions {
  std::string controller;
  std::vector<std::string> roles = {"actor", "rollout", "reward"};
  std::string relay;  ///< host:port of this machine's; empty: the controller names it.
  std::string shm_dir = "/dev/shm";  ///< Folder of that relay's segments, which tells it apart.
  std::string id;
  std::string token_file;
  TlsFiles tls;
  bool insecure = false;  ///< The token may leave this machine in clear text.
  std::string device = "cpu";
  /// The address by which other workers reach this machine when ranks of a group meet; empty: the
  /// address from which it reaches the controller.
  std::string group_host;
  bool allow_commands = false;            ///< Role reward runs spec.reward.command.
  std::string command_sandbox = "auto";   ///< "auto", "bubblewrap" or "none".
  std::vector<std::string> command_read;  ///< SandboxOptions::readable.
  uint64_t command_memory_mb = 4096;      ///< CommandLimits; 0: no limit.
  uint64_t command_cpu_seconds = 3600;
};

/// Serves until a signal comes.
[[nodiscard]] absl::Status Serve(const ServeOptions& options);

}  // namespace baton

#endif  // BATON_WORKERS_MAIN_SERVE_COMMAND_H_
