#include "controller/core/trajectories/lost_groups.h"

#include <algorithm>

namespace baton::controller {

std::set<uint64_t> LostGroups(const std::map<uint64_t, TrajectoryInfo>& trajectories,
                              uint32_t least) {
  std::map<uint64_t, uint32_t> left;  // by prompt index
  std::set<uint64_t> lost;
  for (const auto& [id, trajectory] : trajectories) {
    const bool baseline = trajectory.purpose == v1::PURPOSE_BASELINE;
    // Without its baseline no response of the prompt has an advantage (ReMax).
    if (baseline && trajectory.failed != 0) lost.insert(trajectory.prompt_index);
    if (!baseline) left[trajectory.prompt_index] += trajectory.failed == 0 ? 1 : 0;
  }
  for (const auto& [prompt_index, count] : left) {
    if (count < least) lost.insert(prompt_index);
  }
  return lost;
}

bool LacksInputs(const std::vector<TrajectoryInfo*>& members, uint64_t nodes) {
  return std::any_of(members.begin(), members.end(),
                     [&](const TrajectoryInfo* member) { return (nodes & member->failed) != 0; });
}

std::string LastError(const std::map<uint64_t, TrajectoryInfo>& trajectories) {
  std::string error;
  for (const auto& [id, trajectory] : trajectories) {
    if (trajectory.failed != 0 && !trajectory.error.empty()) error = trajectory.error;
  }
  return error;
}

}  // namespace baton::controller
