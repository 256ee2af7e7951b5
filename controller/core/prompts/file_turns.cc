#include "controller/core/prompts/file_turns.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/numeric/int128.h"

namespace baton::controller {

FileTurns::FileTurns(const std::vector<double>& weights) : files_(weights.size()) {
  std::set<std::pair<uint64_t, size_t>> roots;  // by weight, then in the order they were made
  const auto add = [&](Node node) {
    roots.emplace(node.weight, nodes_.size());
    nodes_.push_back(node);
  };
  for (const double weight : weights) {
    add({static_cast<uint64_t>(std::max<int64_t>(1, std::llround(weight * 1e6))), 0, 0});
  }
  while (roots.size() > 1) {
    // The heavier child has the first turn; if both are equal, the first child.
    auto [right_weight, right] = *roots.begin();
    roots.erase(roots.begin());
    auto [left_weight, left] = *roots.begin();
    roots.erase(roots.begin());
    if (left_weight == right_weight) std::swap(left, right);
    add({left_weight + right_weight, left, right});
  }
}

uint64_t FileTurns::OfLeft(const Node& node, uint64_t turns) const {
  // In 128 bits, for `turns` may be billions, and weights too. The result is at most `turns`.
  const absl::uint128 twice = absl::uint128(turns) * 2 * nodes_[node.left].weight + node.weight;
  return absl::Uint128Low64(twice / (absl::uint128(node.weight) * 2));
}

FileTurns::Turn FileTurns::At(uint64_t turn) const {
  size_t at = nodes_.size() - 1;
  while (at >= files_) {
    const Node& node = nodes_[at];
    const uint64_t left = OfLeft(node, turn);
    const bool goes_left = OfLeft(node, turn + 1) > left;
    at = goes_left ? node.left : node.right;
    turn = goes_left ? left : turn - left;
  }
  return {at, turn};
}

std::vector<uint64_t> FileTurns::Among(uint64_t turns) const {
  std::vector<uint64_t> of(nodes_.size());
  of.back() = turns;
  for (size_t at = nodes_.size(); at-- > files_;) {
    const Node& node = nodes_[at];
    of[node.left] = OfLeft(node, of[at]);
    of[node.right] = of[at] - of[node.left];
  }
  of.resize(files_);
  return of;
}

}  // namespace baton::controller
