// The number of workers of each kind that `baton up` starts.
#ifndef BATON_SDK_CLI_CLUSTER_UP_COUNTS_H_
#define BATON_SDK_CLI_CLUSTER_UP_COUNTS_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace baton::cli {

/// Option of `up` (kUpWorkers) -> workers.
using UpCounts = std::map<std::string, int>;

/// The defaults on a machine with so many cores. Half of the cores generate and a quarter train,
/// with a reward worker for each trainer, so that several jobs can run at once on a large machine;
/// a machine with fewer than 8 cores gets one trainer, and its jobs run one after the other.
/// `workers` is 0.
UpCounts DefaultUpCounts(int cores);

/// CPU cores that this process may use: its affinity, or less where its cgroup (version 2) has a
/// quota; at least 1.
int UsableCores();

/// The part of `cores` that the "MAX PERIOD" of a cgroup's cpu.max allows: the quota, rounded up.
int CoresWithin(absl::string_view cpu_max, int cores);

/// "trainers=1,rollouts=2", for baton-controller --up-workers.
std::string UpCountsFlag(const UpCounts& counts);

/// "1 trainer, 2 rollouts, 1 reward, 2 scorers"; kinds with no worker are left out.
std::string UpCountsText(const UpCounts& counts);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_CLUSTER_UP_COUNTS_H_
