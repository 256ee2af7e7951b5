#include "workers/engine/generation/draft_tree.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace baton::engine {

DraftTree ChainDraft(absl::Span<const int32_t> tokens) {
  DraftTree tree;
  tree.tokens.assign(tokens.begin(), tokens.end());
  tree.parents.resize(tokens.size());
  std::iota(tree.parents.begin(), tree.parents.end(), -1);
  return tree;
}

std::vector<int32_t> DraftDepths(const DraftTree& tree) {
  std::vector<int32_t> depths;
  for (const int32_t parent : tree.parents) depths.push_back(parent < 0 ? 0 : depths[parent] + 1);
  return depths;
}

std::vector<int32_t> PruneDraft(const DraftLimits& limits, DraftTree* tree) {
  std::vector<int32_t> kept;                     // indices before, of the nodes that stay
  std::vector<int32_t> places;                   // of each node in `kept`; -1: it goes
  std::vector<int64_t> depths;                   // of the nodes of `kept`
  std::set<std::pair<int32_t, int32_t>> family;  // (parent in `kept`, token)
  const auto nodes = static_cast<int64_t>(std::min(tree->tokens.size(), tree->parents.size()));
  for (int32_t i = 0; i < std::min(nodes, limits.nodes); ++i) {
    places.push_back(-1);
    const int32_t token = tree->tokens[i];
    const int32_t parent = tree->parents[i];
    if (parent < -1 || parent >= i) continue;
    const int32_t kept_parent = parent < 0 ? -1 : places[parent];
    if (parent >= 0 && kept_parent < 0) continue;
    const int64_t depth = kept_parent < 0 ? 0 : depths[kept_parent] + 1;
    if (depth >= limits.depth || token < 0 || token >= limits.vocab_size) continue;
    if (!family.emplace(kept_parent, token).second) continue;
    places[i] = static_cast<int32_t>(kept.size());
    // The token moves to the front or stays: nodes that are still to be read lie behind.
    tree->tokens[kept.size()] = token;
    tree->parents[kept.size()] = kept_parent;
    depths.push_back(depth);
    kept.push_back(i);
  }
  tree->tokens.resize(kept.size());
  tree->parents.resize(kept.size());
  return kept;
}

}  // namespace baton::engine
