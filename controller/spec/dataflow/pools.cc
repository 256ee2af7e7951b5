#include "controller/spec/dataflow/pools.h"

#include <algorithm>
#include <map>
#include <set>

#include "controller/spec/dataflow/replay.h"
#include "controller/spec/dataflow/roles.h"

namespace baton::controller {
namespace {

using Groups = std::vector<std::vector<std::string>>;

// The groups of roles that share workers; the roles of each group in order.
Groups GroupsOf(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  const std::vector<std::string> roles = RolesInOrder(effective, dataflow);
  const auto& pools = effective.resources().pools();
  std::map<std::string, size_t> pool_of;
  for (int i = 0; i < pools.size(); ++i) {
    for (const std::string& role : pools.Get(i).roles()) {
      pool_of.emplace(role, static_cast<size_t>(i));
    }
  }
  if (const auto actor = pool_of.find(roles::kActor); actor != pool_of.end()) {
    pool_of.emplace(roles::kRollout, actor->second);
  }
  Groups groups(static_cast<size_t>(pools.size()));
  for (const std::string& role : roles) {
    const auto at = pool_of.find(role);
    if (at == pool_of.end()) {
      groups.push_back({role});
    } else {
      groups[at->second].push_back(role);
    }
  }
  groups.erase(
      std::remove_if(groups.begin(), groups.end(), [](const auto& g) { return g.empty(); }),
      groups.end());
  return groups;
}

}  // namespace

std::vector<std::string> RolesInOrder(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  std::vector<std::string> out;
  std::set<std::string> seen;
  const auto add = [&](const std::string& role) {
    if (seen.insert(role).second) out.push_back(role);
  };
  std::set<std::string> trained;
  for (const v1::UpdateNode& node : dataflow.update()) trained.insert(node.role());
  if (effective.kind() == v1::JOB_KIND_RL && !Replays(dataflow)) {
    add(roles::kRollout);
    for (const v1::ScoreNode& node : dataflow.score()) {
      // A role that may train but does not has no workers; its graph is refused.
      if (!MayTrain(node.role()) || trained.count(node.role()) > 0) add(node.role());
    }
  }
  for (const v1::UpdateNode& node : dataflow.update()) add(node.role());
  return out;
}

std::vector<RolePool> PoolsOf(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  const std::map<std::string, int> workers = WorkersOf(effective, dataflow);
  std::vector<RolePool> out;
  for (std::vector<std::string>& roles : GroupsOf(effective, dataflow)) {
    RolePool pool;
    for (const std::string& role : roles) pool.workers = std::max(pool.workers, workers.at(role));
    pool.roles = std::move(roles);
    out.push_back(std::move(pool));
  }
  return out;
}

bool IsHybrid(const v1::JobSpec& effective, const v1::Dataflow& dataflow) {
  const auto has = [](const std::vector<std::string>& roles, const char* role) {
    return std::find(roles.begin(), roles.end(), role) != roles.end();
  };
  const Groups groups = GroupsOf(effective, dataflow);
  return std::any_of(groups.begin(), groups.end(), [&](const std::vector<std::string>& roles) {
    return has(roles, roles::kActor) && has(roles, roles::kRollout);
  });
}

}  // namespace baton::controller
