#include "controller/cluster/project_quotas.h"

#include <algorithm>
#include <limits>

namespace baton::controller {

int ProjectQuotas::LimitOf(const std::string& project) const {
  const auto it = projects_.find(project);
  return it == projects_.end() ? 0 : it->second.max_workers();
}

int ProjectQuotas::RoomOf(const std::string& project, int held) const {
  const int limit = LimitOf(project);
  return limit == 0 ? std::numeric_limits<int>::max() : std::max(0, limit - held);
}

double ProjectQuotas::ShareOf(const std::string& project, int held) const {
  const auto it = projects_.find(project);
  const int weight = it == projects_.end() ? 1 : std::max(1, it->second.weight());
  return static_cast<double>(held) / weight;
}

}  // namespace baton::controller
