#include "controller/core/lost_groups.h"

#include <algorithm>

#include "controller/algorithms/estimator_spec.h"
#include "sdk/schema_spec/spec_fields.h"

namespace baton::controller {

// An estimator that compares responses of a prompt, and a score over the group, need two of them.
uint32_t LeastResponses(const v1::JobSpec& spec, const v1::Dataflow& dataflow) {
  if (spec.rollout().n() < 2) return 1;
  const bool over_group =
      std::any_of(dataflow.score().begin(), dataflow.score().end(),
                  [](const v1::ScoreNode& node) { return node.over() == "group"; });
  if (over_group) return 2;
  const auto options = ToOptions(dataflow.advantage().options());
  if (!options.ok()) return 1;  // it was checked at submit
  const auto check = algorithms::CheckEstimator(dataflow.advantage().estimator(), *options);
  return check.needs.groups ? 2 : 1;
}

std::set<uint64_t> LostGroups(const std::map<uint64_t, TrajectoryInfo>& trajectories,
                              uint32_t least) {
  std::map<uint64_t, uint32_t> left;  // by draw
  std::set<uint64_t> lost;
  for (const auto& [id, trajectory] : trajectories) {
    const bool baseline = trajectory.purpose == v1::PURPOSE_BASELINE;
    // Without its baseline no response of the prompt has an advantage (ReMax).
    if (baseline && trajectory.failed != 0) lost.insert(trajectory.draw);
    if (!baseline) left[trajectory.draw] += trajectory.failed == 0 ? 1 : 0;
  }
  for (const auto& [draw, count] : left) {
    if (count < least) lost.insert(draw);
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
