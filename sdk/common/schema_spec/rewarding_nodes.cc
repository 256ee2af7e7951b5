#include "sdk/common/schema_spec/rewarding_nodes.h"

#include <set>

namespace baton {

std::map<std::string, double> RewardWeights(const v1::Dataflow& dataflow) {
  const auto& given = dataflow.advantage().rewards();
  if (given.empty()) return {{"reward", 1}};
  return {given.begin(), given.end()};
}

std::vector<bool> RewardingNodes(const v1::Dataflow& dataflow) {
  std::set<std::string> columns;
  for (const auto& [column, weight] : RewardWeights(dataflow)) columns.insert(column);
  std::vector<bool> rewarding(static_cast<size_t>(dataflow.score_size()));
  for (bool grew = true; grew;) {
    grew = false;
    for (int i = 0; i < dataflow.score_size(); ++i) {
      const v1::ScoreNode& node = dataflow.score(i);
      if (rewarding[static_cast<size_t>(i)] || columns.count(node.out()) == 0) continue;
      rewarding[static_cast<size_t>(i)] = true;
      columns.insert(node.inputs().begin(), node.inputs().end());
      grew = true;
    }
  }
  return rewarding;
}

}  // namespace baton
