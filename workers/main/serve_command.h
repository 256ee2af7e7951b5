// `baton-worker` without a subcommand: attaches to a controller and plays roles.
#ifndef BATON_WORKERS_MAIN_SERVE_COMMAND_H_
#define BATON_WORKERS_MAIN_SERVE_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "sdk/base/tls_files.h"

namespace baton {

struct ServeOptions {
  std::string controller;
  std::vector<std::string> roles = {"actor", "rollout", "reward"};
  std::string relay = "127.0.0.1:7079";  ///< host:port, or an absolute folder instead of a relay.
  std::string id;
  std::string token_file;
  TlsFiles tls;
  std::string device = "cpu";
  /// How other workers reach this machine when ranks of a group meet; empty: the address from which
  /// it reaches the controller.
  std::string group_host;
};

/// Serves until a signal comes.
[[nodiscard]] absl::Status Serve(const ServeOptions& options);

}  // namespace baton

#endif  // BATON_WORKERS_MAIN_SERVE_COMMAND_H_
