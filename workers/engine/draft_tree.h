// A guess at how a response goes on: a tree of tokens that one forward pass can verify. What
// proposes it needs no libtorch, so this header has none.
#ifndef BATON_WORKERS_ENGINE_DRAFT_TREE_H_
#define BATON_WORKERS_ENGINE_DRAFT_TREE_H_

#include <cstdint>
#include <vector>

namespace baton::engine {

/// Node i is the token tokens[i]. It follows the node parents[i], which is less than i, or the
/// response's last token if parents[i] is -1. Nodes with the same parent have different tokens.
struct DraftTree {
  std::vector<int32_t> tokens;   // [nodes]
  std::vector<int32_t> parents;  // [nodes]
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_DRAFT_TREE_H_
