// The processes of a cluster that `baton up` starts.
#ifndef BATON_SDK_CLI_CLUSTER_UP_CHILDREN_H_
#define BATON_SDK_CLI_CLUSTER_UP_CHILDREN_H_

#include <map>
#include <string>
#include <vector>

#include "sdk/cli/cluster/supervisor.h"
#include "sdk/cli/cluster/up_counts.h"
#include "sdk/cli/shared/state_file.h"

namespace baton::cli {

/// The options of `up`.
struct UpFlags {
  int cores = UsableCores();
  UpCounts counts = DefaultUpCounts(cores);
  /// Option of `up` (kUpWorkers) -> threads of each such worker; other workers compute with one.
  std::map<std::string, int> threads = {{"trainers", 1}, {"rollouts", 1}};
  int port = 7077, http_port = 7078, relay_port = 7079;
  bool detach = false;
  bool fake = false;
  std::string command_sandbox = "auto";
};

/// The file of the key that relay and controller share: no other program on the machine publishes
/// for a job.
std::string RelayKey(const std::string& state_dir);

/// Relay, controller, and the workers of each kind, in the order in which they are started. `state`
/// has the addresses.
std::vector<ChildSpec> UpChildren(const UpFlags& flags, const std::string& state_dir,
                                  const ClusterState& state);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_CLUSTER_UP_CHILDREN_H_
