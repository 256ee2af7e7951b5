// A guess at how a response goes on: a tree of tokens that one forward pass can verify. A drafter
// that proposes it needs no libtorch, so this header has none.
#ifndef BATON_WORKERS_ENGINE_GENERATION_DRAFT_TREE_H_
#define BATON_WORKERS_ENGINE_GENERATION_DRAFT_TREE_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"

namespace baton::engine {

/// Node i is the token tokens[i]. It follows the node parents[i], which is less than i, or the
/// response's last token if parents[i] is -1. Nodes with the same parent have different tokens.
struct DraftTree {
  std::vector<int32_t> tokens;   // [nodes]
  std::vector<int32_t> parents;  // [nodes]

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
};

/// A tree of one path.
DraftTree ChainDraft(absl::Span<const int32_t> tokens);

/// [nodes]: the number of a node's ancestors. 0: it may be the response's next token.
std::vector<int32_t> DraftDepths(const DraftTree& tree);

struct DraftLimits {
  int64_t vocab_size = 0;                               // tokens are in [0, vocab_size)
  int64_t depth = 0;                                    // depths are in [0, depth)
  int64_t nodes = std::numeric_limits<int64_t>::max();  // indices are in [0, nodes)
};

/// Removes from `tree` what makes it no tree within the limits. `tree` may be any nonsense: a node
/// without an earlier parent, out of the limits or equal to a sibling goes, and so do its
/// descendants. The others keep their order. Returns the index that each of these had, [nodes].
std::vector<int32_t> PruneDraft(const DraftLimits& limits, DraftTree* tree);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_GENERATION_DRAFT_TREE_H_
