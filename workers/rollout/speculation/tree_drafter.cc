#include "workers/rollout/speculation/tree_drafter.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "sdk/base/mutant.h"

namespace baton::rollout {
namespace {

constexpr int64_t kMostPerResponse = 64;  // draft tokens
constexpr int64_t kOverdraft = 4;         // times its share of a pass that a response may propose
// Scores may be too low by this factor; what would not pay even then is not proposed.
constexpr double kBelief = 0.5;
constexpr int64_t kMostRest = 32;  // passes
constexpr int64_t kVainTries = 4;  // before the first rest

// Children of `parent` (-1: the root) in a draft; the one with that token, or -1.
int32_t ChildWith(const engine::DraftTree& tree, int32_t parent, int32_t token) {
  for (size_t i = static_cast<size_t>(parent + 1); i < tree.tokens.size(); ++i) {
    if (tree.parents[i] == parent && tree.tokens[i] == token) return static_cast<int32_t>(i);
  }
  return -1;
}

void Cut(size_t nodes, Draft* draft) {
  draft->tree.tokens.resize(nodes);
  draft->tree.parents.resize(nodes);
  draft->scores.resize(nodes);
}

}  // namespace

void TreeDrafter::Begin(uint64_t id, absl::Span<const int32_t> prompt,
                        absl::Span<const int32_t> resumed) {
  Response& response = responses_[id];
  response.cursor = cache_->Begin(prompt, actor_updates_);
  // What the engine draws is a token; a resumed one that is none gets no drafts.
  if (!response.cursor->Append(resumed).ok()) responses_.erase(id);
}

void TreeDrafter::Append(uint64_t id, absl::Span<const int32_t> tokens, int64_t verified) {
  const auto found = responses_.find(id);
  if (found == responses_.end()) return;
  Response& response = found->second;
  if (std::exchange(response.asked, false)) {
    pass_.tokens += static_cast<int64_t>(tokens.size());
    pass_.verified += verified;
  }
  Judge(response, tokens, verified);
  if (!response.cursor->Append(tokens).ok()) responses_.erase(found);
}

// Counts what became of the nodes of its last draft that were computed.
void TreeDrafter::Judge(Response& response, absl::Span<const int32_t> tokens, int64_t verified) {
  const engine::DraftTree& tree = response.draft.tree;
  size_t nodes = std::min(tree.tokens.size(), static_cast<size_t>(std::max<int64_t>(0, verified)));
  if (Mutant("unverified-nodes-judged")) nodes = tree.tokens.size();
  std::vector<bool> accepted(tree.tokens.size(), false);
  int32_t node = -1;
  for (const int32_t token : tokens) {
    node = ChildWith(tree, node, token);
    if (node < 0) break;
    accepted[static_cast<size_t>(node)] = true;
  }
  for (size_t i = 0; i < nodes; ++i) {
    acceptance_.Note(response.draft.scores[i], response.draft.match_length, accepted[i]);
    stats_.accepted += accepted[i] ? 1 : 0;
  }
  stats_.verified += static_cast<int64_t>(nodes);
  response.draft.Clear();
}

// Drafts of the responses as far as they may pay at all.
std::vector<DraftQuery> TreeDrafter::Propose(absl::Span<const uint64_t> ids, int64_t max_nodes) {
  const auto decoding = static_cast<int64_t>(ids.size());
  // What a response may get beyond its share it takes from others; more need not be proposed.
  const auto most = static_cast<int>(std::min(
      {kMostPerResponse, max_nodes, std::max(kOverdraft, kOverdraft * max_nodes / decoding)}));
  const double least = kBelief * LeastProbability(decoding, cost_);
  std::vector<DraftQuery> queries;
  for (const uint64_t id : ids) {
    const auto found = responses_.find(id);
    if (found == responses_.end()) continue;
    Response& response = found->second;
    response.asked = true;
    queries.push_back({response.cursor.get(), most, &response.draft, least});
  }
  TreeCache::ProposeDrafts(queries);
  return queries;
}

// Returns how many nodes are left of all drafts.
int64_t TreeDrafter::CutToBudgets(absl::Span<const DraftQuery> queries, int64_t decoding,
                                  int64_t max_nodes) {
  std::vector<NodeProbabilities> probabilities(queries.size());
  for (size_t i = 0; i < queries.size(); ++i) {
    const rollout::Draft& draft = *queries[i].draft;
    stats_.matched += draft.match_length > 0 ? 1 : 0;
    double least = 1;
    for (const float score : draft.scores) {
      // Counts err: a node is no likelier than those before it.
      least = std::min(least, acceptance_.Of(score, draft.match_length));
      probabilities[i].push_back(least);
    }
  }
  stats_.asked += static_cast<int64_t>(queries.size());
  const std::vector<size_t> budgets =
      ChooseBudgets(probabilities, decoding, static_cast<size_t>(max_nodes), cost_);
  int64_t total = 0;
  for (size_t i = 0; i < queries.size(); ++i) {
    Cut(budgets[i], queries[i].draft);
    total += static_cast<int64_t>(budgets[i]);
  }
  stats_.proposed += total;
  return total;
}

// The last pass is over, and its tokens are known.
void TreeDrafter::Settle() {
  const Pass pass = std::exchange(pass_, {});
  if (pass.drafted == 0 || pass.rows == 0 || !cost_.known()) return;
  // In all the time that the pass and its drafts took.
  const double plain_seconds = cost_.Seconds(std::max<int64_t>(1, pass.rows - pass.verified));
  const double plain =
      static_cast<double>(pass.decoding) * (pass.seconds + pass.draft_seconds) / plain_seconds;
  guard_.NotePass(static_cast<double>(pass.tokens), plain);
}

std::vector<engine::DraftTree> TreeDrafter::Draft(absl::Span<const uint64_t> ids,
                                                  int64_t max_nodes) {
  Settle();
  std::vector<engine::DraftTree> trees(ids.size());
  if (ids.empty() || max_nodes < 1) return trees;
  if (guard_.Rests()) return trees;
  if (rest_ > 0) {
    --rest_;
    return trees;
  }
  const auto began = std::chrono::steady_clock::now();
  const auto decoding = static_cast<int64_t>(ids.size());
  const int64_t total = CutToBudgets(Propose(ids, max_nodes), decoding, max_nodes);
  for (size_t i = 0; i < ids.size() && total > 0; ++i) {
    const auto found = responses_.find(ids[i]);
    if (found != responses_.end()) trees[i] = found->second.draft.tree;
  }
  vain_ = total > 0 ? 0 : vain_ + 1;
  // The more often nothing paid, the longer it rests.
  if (vain_ >= kVainTries) rest_ = std::min(kMostRest, vain_ - kVainTries + 1);
  pass_.decoding = decoding;
  pass_.drafted = total;
  pass_.draft_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return trees;
}

void TreeDrafter::PassDone(int64_t rows, double seconds) {
  cost_.Note(rows, seconds);
  // Several passes may follow one call of Draft; its drafts were for the first of them.
  if (pass_.rows == 0) {
    pass_.rows = rows;
    pass_.seconds = seconds;
  }
  acceptance_.Fade();
}

void TreeDrafter::End(uint64_t id) { responses_.erase(id); }

}  // namespace baton::rollout
