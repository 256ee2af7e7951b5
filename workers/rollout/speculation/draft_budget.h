// The number of tokens of each draft that a forward pass verifies: only as many as pay.
//
// A pass that decodes r responses and verifies k draft tokens besides takes T(r + k) seconds
// (PassCost), and yields r tokens and those of the draft that are accepted. The budget takes the
// draft tokens that are likeliest to be accepted, over all responses, as long as each of them
// raises the expected tokens a second:
//
//   max over k of (r + p_1 + … + p_k) / T(r + k),   p_1 ≥ p_2 ≥ …
//
// So few running responses get large drafts, for the fixed part dominates; a full batch gets none
// but nearly certain ones. A node is verified with its ancestors, and is no likelier than they are,
// so what is taken is a tree.
#ifndef BATON_WORKERS_ROLLOUT_SPECULATION_DRAFT_BUDGET_H_
#define BATON_WORKERS_ROLLOUT_SPECULATION_DRAFT_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "workers/rollout/speculation/pass_cost.h"

namespace baton::rollout {

/// The probability that each node of a draft is accepted; at most its parent's, which comes before
/// it.
using NodeProbabilities = std::vector<double>;

struct ChosenNode {
  size_t draft = 0, node = 0;
};

/// A node that is accepted with less probability hardly pays beside `decoding` responses: by the
/// line of the cost it would take more time than it saves. 0: that is not known.
double LeastProbability(int64_t decoding, const PassCost& cost);

/// Whether drafts may raise the tokens a second of `decoding` responses at all: with `most` nodes,
/// each accepted with `probability`, if drafting takes `draft_seconds`. True while the cost of a
/// pass is not known.
bool MayPay(int64_t decoding, int64_t most, double probability, double draft_seconds,
            const PassCost& cost);

/// The nodes to verify beside `decoding` responses: the likeliest of all drafts, at most `most`,
/// the likeliest first. So a parent comes before its children. While the cost of a pass is not
/// known, a few nodes, so that it becomes known.
std::vector<ChosenNode> ChooseNodes(absl::Span<const NodeProbabilities> drafts, int64_t decoding,
                                    size_t most, const PassCost& cost);

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_SPECULATION_DRAFT_BUDGET_H_
