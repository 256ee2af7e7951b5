// A draft that a tree cache proposes.
#ifndef BATON_WORKERS_ROLLOUT_TREE_CACHE_DRAFT_H_
#define BATON_WORKERS_ROLLOUT_TREE_CACHE_DRAFT_H_

#include <vector>

#include "workers/engine/generation/draft_tree.h"

namespace baton::rollout {

/// A guess at how a response goes on. Scores never rise from node to node, so the first k nodes are
/// the draft that a budget of k gives: a caller may cut it anywhere.
struct Draft {
  engine::DraftTree tree;
  /// For each node, the estimated probability that the response goes on with the node's path: the
  /// share of the earlier responses that did, step by step. Source: SRT (arXiv 2601.09083), the
  /// product of count(v) / (sum of count over v and its siblings).
  std::vector<float> scores;
  /// For each node, the count that its share refers to: how often a token was seen after the parent
  /// (for a root: after the context). An occurrence in a response as new as the drafted one counts
  /// 1.
  std::vector<float> seen;
  /// Tokens of the response's longest suffix that was followed by a token before, at most the
  /// tree's depth less one. The beginning of a response counts as one. 0: there is none, and the
  /// draft is empty.
  int match_length = 0;

  void Clear() {
    tree.tokens.clear();
    tree.parents.clear();
    scores.clear();
    seen.clear();
    match_length = 0;
  }
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_TREE_CACHE_DRAFT_H_
