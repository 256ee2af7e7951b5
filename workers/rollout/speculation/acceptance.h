// The probability that a draft's tokens are accepted, learned from the drafts that were verified.
#ifndef BATON_WORKERS_ROLLOUT_SPECULATION_ACCEPTANCE_H_
#define BATON_WORKERS_ROLLOUT_SPECULATION_ACCEPTANCE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "workers/rollout/tree_cache/draft.h"

namespace baton::rollout {

/// A tree cache's evidence for a node of a draft, given that its parent is accepted. (A root's
/// parent is the context, which is accepted.)
struct NodeEvidence {
  float share = 1;  // of what was seen behind the parent, (0, 1]
  float seen = 1;   // how much that was (Draft.seen)
  int matched = 0;  // tokens up to the parent that the tree knows as one string
};

/// Learns with which probability a node is accepted once its parent is.
///
/// The evidence is the share of earlier responses that went on so. It is stronger with more
/// responses and a longer agreement before, and weaker the more the policy has changed since. So
/// nodes are
/// counted by share (in steps of a factor of sqrt 2), by seen and by matched (in steps of a factor
/// of 2). Only nodes whose parent was accepted are counted: for the others it is not known what
/// would have been drawn. For a class without counts the share itself is believed; counts fade, so
/// a class that seemed not to pay is tried again.
class Acceptance {
 public:
  /// A node was verified, and its parent was accepted; `accepted`: so was the node.
  void Note(const NodeEvidence& node, bool accepted);
  /// The probability that the node is accepted if its parent is, in [0, 1].
  double Of(const NodeEvidence& node) const;
  /// False: so few nodes were tried that the shares are all that is known.
  bool Tried() const;
  /// No node is accepted with a higher probability, as far as nodes were tried; 1: too few were.
  double Best() const;
  /// A pass is over: counts fade.
  void Fade();

 private:
  static constexpr int kShares = 10, kSeen = 5, kMatched = 8;
  struct Count {
    double tried = 0, accepted = 0;
  };
  static size_t ClassOf(const NodeEvidence& node);
  void FindBest();

  // A note counts `unit_`, which grows. So older notes count less, and none must be touched.
  double unit_ = 1;
  std::array<Count, size_t{kShares} * kSeen * kMatched> counts_;
  double tried_ = 0;  // of all classes
  double best_ = 1;   // as it was lately
  int64_t passes_ = 0;
};

/// The evidence of each node of a draft.
void EvidenceOf(const Draft& draft, std::vector<NodeEvidence>* evidence);

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_SPECULATION_ACCEPTANCE_H_
