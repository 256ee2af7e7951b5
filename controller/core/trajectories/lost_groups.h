// Groups of responses that failures of the infrastructure left without enough rewards.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_LOST_GROUPS_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_LOST_GROUPS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "controller/core/job/trajectory.h"

namespace baton::controller {

/// The prompt indices of `trajectories` (a step's, all READY) with fewer than `least` training
/// responses that have a reward, or whose greedy baseline has none.
std::set<uint64_t> LostGroups(const std::map<uint64_t, TrajectoryInfo>& trajectories,
                              uint32_t least);

/// True when some of `members`, the responses to one prompt, never had an output of `nodes`.
bool LacksInputs(const std::vector<TrajectoryInfo*>& members, uint64_t nodes);

/// The error of the last response without a reward; empty: all have one.
std::string LastError(const std::map<uint64_t, TrajectoryInfo>& trajectories);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_LOST_GROUPS_H_
