#include "controller/spec/dataflow/score_graph.h"

#include <algorithm>
#include <set>

#include "controller/spec/dataflow/role_names.h"
#include "sdk/common/schema_spec/rewarding_nodes.h"

namespace baton::controller {

const std::vector<std::string>& GeneratedColumns() {
  static const auto* const columns =
      new std::vector<std::string>{"prompt_tokens", "tokens", "rollout_log_prob"};
  return *columns;
}

ScoreGraph::ScoreGraph(const v1::Dataflow& dataflow, bool is_async) {
  std::map<std::string, uint32_t> made_by;
  const int nodes = std::min(dataflow.score_size(), kMaxScoreNodes);
  for (int i = 0; i < nodes; ++i) {
    made_by.emplace(dataflow.score(i).out(), static_cast<uint32_t>(i));
    roles_.push_back(dataflow.score(i).role());
    all_ |= uint64_t{1} << i;
    if (dataflow.score(i).over() == "group") over_group_ |= uint64_t{1} << i;
  }
  weights_ = RewardWeights(dataflow);
  const std::vector<bool> rewarding = RewardingNodes(dataflow);
  for (int i = 0; i < nodes; ++i) {
    uint64_t needs = 0;
    for (const std::string& input : dataflow.score(i).inputs()) {
      const auto from = made_by.find(input);
      if (from != made_by.end()) needs |= uint64_t{1} << from->second;
    }
    needs_.push_back(needs);
    if (weights_.count(dataflow.score(i).out()) > 0) sources_ |= uint64_t{1} << i;
    if (rewarding[static_cast<size_t>(i)]) rewarding_ |= uint64_t{1} << i;
  }
  for (uint32_t i = 0; is_async && i < roles_.size(); ++i) {
    if (roles_[i] == roles::kActor) at_selection_ |= WithDependents(i);
  }
  at_selection_ &= ~rewarding_;  // a reward is known before the selection
}

std::vector<std::string> ScoreGraph::roles() const {
  const std::set<std::string> sorted(roles_.begin(), roles_.end());
  return {sorted.begin(), sorted.end()};
}

uint64_t ScoreGraph::WithDependents(uint32_t node) const {
  uint64_t found = uint64_t{1} << node;
  for (int round = 0; round < size(); ++round) {  // as deep as the graph can be
    for (int i = 0; i < size(); ++i) {
      if ((needs_[i] & found) != 0) found |= uint64_t{1} << i;
    }
  }
  return found;
}

double ScoreGraph::Reward(const std::map<std::string, double>& scores) const {
  double reward = 0;
  for (const auto& [output, weight] : weights_) {
    const auto score = scores.find(output);
    if (score != scores.end()) reward += weight * score->second;
  }
  return reward;
}

}  // namespace baton::controller
