// Drafts of a suffix tree: its context, and the greedy choice of nodes.
#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "workers/rollout/tree_cache/suffix_tree.h"

namespace baton::rollout {

/// A token that may be the next node of a draft.
struct SuffixTree::Candidate {
  double score;
  float seen;    // Draft.seen, but in weights
  float weight;  // of the token's edge
  int32_t parent;
  int32_t token;
  Target to;       // of the token's edge
  uint32_t slot;   // of the token in the text; kUnread: the first of the edge
  uint32_t depth;  // of the string that ends with the token

  static constexpr uint32_t kUnread = ~0U;

  /// Whether this one is chosen after `other`.
  bool operator<(const Candidate& other) const {
    if (score != other.score) return score < other.score;
    if (parent != other.parent) return parent > other.parent;
    return token > other.token;
  }
};

/// One draft that is being made.
class SuffixTree::Proposal {
 public:
  /// `weight`: of the response that is drafted.
  Proposal(const SuffixTree* tree, int budget, double least_score, float weight, Draft* draft)
      : tree_(*tree),
        budget_(static_cast<size_t>(budget)),
        least_score_(least_score),
        weight_(weight),
        draft_(*draft) {}

  void ProposeFrom(const Place& place, uint32_t length) {
    if (place.edge == nullptr) {
      PushEdges(place.node, 1.0, -1);
    } else {
      const float weight = WeightOf(place);
      Push({1.0, weight, weight, -1, tree_.text_.At(place.next), place.edge->to, place.next,
            length + 1});
    }
    while (!open_.empty() && size() < budget_) {
      std::pop_heap(open_.begin(), open_.end());
      const Candidate next = open_.back();
      open_.pop_back();
      TakeEdge(next);
    }
  }

 private:
  size_t size() const { return draft_.tree.tokens.size(); }

  void Push(const Candidate& candidate) {
    if (candidate.score < least_score_) return;
    open_.push_back(candidate);
    std::push_heap(open_.begin(), open_.end());
  }

  int32_t Take(const Candidate& candidate) {
    draft_.tree.tokens.push_back(candidate.token);
    draft_.tree.parents.push_back(candidate.parent);
    draft_.scores.push_back(static_cast<float>(candidate.score));
    draft_.seen.push_back(candidate.seen / weight_);
    return static_cast<int32_t>(size()) - 1;
  }

  /// Takes the candidate, and what follows it on its edge while no other candidate is better.
  void TakeEdge(Candidate at) {
    const bool leaf = at.to.is_leaf();
    const uint32_t end = leaf ? tree_.depth_ : tree_.nodes_.node(at.to.node()).depth;
    if (at.slot == Candidate::kUnread) at.slot = tree_.LabelOf(at.to);
    while (true) {
      at.parent = Take(at);
      at.seen = at.weight;
      if (size() == budget_) return;
      if (at.depth == end) {
        if (!leaf) PushEdges(at.to.node(), at.score, at.parent);
        return;
      }
      at.slot = tree_.text_.Advance(at.slot, 1);
      at.token = tree_.text_.At(at.slot);
      if (at.token == kNoToken || at.token == kEndToken) return;
      ++at.depth;
      // An equal one has an earlier parent.
      if (!open_.empty() && open_.front().score >= at.score) return Push(at);
    }
  }

  void PushEdges(uint32_t index, double score, int32_t parent) {
    const NodeStore& nodes = tree_.nodes_;
    const Node& node = nodes.node(index);
    double total = 0;
    for (const Edge* edge = nodes.begin(node); edge != nodes.end(node); ++edge) {
      if (IsToken(*edge)) total += edge->weight;
    }
    const size_t wanted = budget_ - size();
    const auto candidate = [&](const Edge& edge) {
      return Candidate{score * (edge.weight / total),
                       static_cast<float>(total),
                       edge.weight,
                       parent,
                       edge.token,
                       edge.to,
                       Candidate::kUnread,
                       node.depth + 1U};
    };
    if (nodes.hashed(node)) return PushBestOf(node, wanted, candidate);
    size_t pushed = 0;  // Candidates are sorted.
    for (const Edge* edge = nodes.begin(node); edge != nodes.end(node) && pushed < wanted; ++edge) {
      if (!IsToken(*edge)) continue;
      ++pushed;
      Prefetch(edge->to);
      Push(candidate(*edge));
    }
  }

  /// Pushes the `wanted` best edges of a hash table.
  template <typename MakeCandidate>
  void PushBestOf(const Node& node, size_t wanted, MakeCandidate candidate) {
    const auto better = [](const Edge* a, const Edge* b) {
      return a->weight != b->weight ? a->weight > b->weight : a->token < b->token;
    };
    absl::InlinedVector<const Edge*, 32> best;  // a heap, the worst in front
    for (const Edge* edge = tree_.nodes_.begin(node); edge != tree_.nodes_.end(node); ++edge) {
      if (!IsToken(*edge)) continue;
      if (best.size() == wanted) {
        if (!better(edge, best.front())) continue;
        std::pop_heap(best.begin(), best.end(), better);
        best.pop_back();
      }
      best.push_back(edge);
      std::push_heap(best.begin(), best.end(), better);
    }
    for (const Edge* edge : best) {
      Prefetch(edge->to);
      Push(candidate(*edge));
    }
  }

  // The count of the context with the next token. Edges of the root have no weights.
  float WeightOf(const Place& place) const {
    const Target to = place.edge->to;
    const bool unknown = place.node == NodeStore::kRoot && !to.is_leaf();
    return unknown ? tree_.nodes_.TotalWeight(to.node()) : place.edge->weight;
  }

  static bool IsToken(const Edge& edge) {
    return edge.token != kNoToken && edge.token != kEndToken;
  }

  void Prefetch(Target to) const {
    if (to.is_leaf()) {
      tree_.text_.Prefetch(to.position());
    } else {
      tree_.nodes_.Prefetch(to.node());
    }
  }

  const SuffixTree& tree_;
  const size_t budget_;
  const double least_score_;
  const float weight_;
  Draft& draft_;
  absl::InlinedVector<Candidate, 32> open_;  // a heap, the next one in front
};

/// The longest suffix after which a token is known, and its length; 0: there is none.
SuffixTree::Place SuffixTree::LongestContext(const GrowingText& text, uint32_t* length) {
  uint32_t node = text.node;
  for (*length = text.length - text.first; *length > 0;) {
    const Place place = Locate(text, text.length - *length, *length, node);
    if (place.edge == nullptr) return place;  // A node has two edges; one of them is not the end.
    const int32_t next = text_.At(place.next);
    if (next != kNoToken && next != kEndToken) return place;
    if (next == kNoToken) {
      // Another response stands at the same place. Nothing follows the strings between this one and
      // the other's match, because they are the other's leaves.
      const GrowingText& other = *GrowingAt(place.next);
      *length = other.length - other.first;
      node = other.node;
    } else {
      --*length;
      node = FollowLink(place.node);
    }
  }
  return {NodeStore::kRoot, nullptr, 0};
}

/// The end of the text that a long match is cut to, and its length.
SuffixTree::Place SuffixTree::CappedContext(GrowingText* text, uint32_t* length) {
  const uint32_t step = depth_ / 4;
  const uint32_t first = (text->length - depth_ / 2 + step - 1) / step * step;
  *length = text->length - first;
  const uint32_t known = first == text->context_first ? text->context_node : NodeStore::kRoot;
  const Place place = Locate(*text, first, *length, known);
  text->context_first = first;
  text->context_node = place.node;
  return place;
}

void SuffixTree::ProposeDraft(GrowingText* text, int budget, Draft* draft, double least_score) {
  draft->Clear();
  if (budget <= 0) return;
  uint32_t length = 0;
  Place place = LongestContext(*text, &length);
  draft->match_length = static_cast<int>(length);
  if (length == 0) return;
  if (length > depth_ / 2) place = CappedContext(text, &length);
  Proposal(this, budget, least_score, text->weight, draft).ProposeFrom(place, length);
}

}  // namespace baton::rollout
