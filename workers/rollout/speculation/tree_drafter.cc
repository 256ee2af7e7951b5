#include "workers/rollout/speculation/tree_drafter.h"

#include <algorithm>
#include <chrono>

namespace baton::rollout {
namespace {

constexpr int64_t kMostPerResponse = 64;  // draft tokens
constexpr int64_t kOverdraft = 4;         // times its share of a pass that a response may propose
// Scores may be too low by this factor; what would not pay even then is not proposed.
constexpr double kLowestScore = 0.5;
constexpr int64_t kFirstNodes = 16;

double Seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void TreeDrafter::Append(uint64_t id, absl::Span<const int32_t> tokens,
                         const engine::DraftOutcome& outcome) {
  if (const auto found = unanswered_.find(id); found != unanswered_.end()) {
    schedule_.NoteTokens(static_cast<int64_t>(tokens.size()),
                         static_cast<int64_t>(outcome.computed.size()));
    Judge(drafted_[found->second].guesses, outcome);
    unanswered_.erase(found);
  }
  tracker_.Append(id, tokens);
}

// Counts what became of the nodes that were computed.
void TreeDrafter::Judge(std::vector<Guess>& guesses, const engine::DraftOutcome& outcome) {
  const auto guess_at = [&](int32_t node) -> Guess& { return guesses[static_cast<size_t>(node)]; };
  for (const int32_t node : outcome.computed) guess_at(node).computed = true;
  for (const int32_t node : outcome.path) guess_at(node).drawn = true;
  for (const Guess& guess : guesses) {
    if (!guess.computed) continue;
    ++stats_.verified;
    if (guess.drawn) ++stats_.accepted;
    const bool reached = guess.parent < 0 || guess_at(guess.parent).drawn;
    if (reached) {
      acceptance_.Note(guess.evidence, guess.drawn);
    }
  }
}

// All tokens go into the trees, before any response is drafted: each may profit from the others.
// Returns how many these were.
int64_t TreeDrafter::FollowAll(absl::Span<const uint64_t> ids) {
  int64_t followed = 0;
  size_ = 0;
  unanswered_.clear();
  for (size_t i = 0; i < ids.size(); ++i) {
    ResponseCursor* const cursor = tracker_.Follow(ids[i], &followed);
    if (cursor == nullptr) continue;
    if (size_ == drafted_.size()) drafted_.emplace_back();
    drafted_[size_].place = i;
    drafted_[size_].cursor = cursor;
    unanswered_[ids[i]] = size_++;
  }
  return followed;
}

// Drafts of the responses as far as they may pay at all.
void TreeDrafter::Propose(int64_t max_nodes) {
  const int64_t decoding = schedule_.decoding();
  // A response takes nodes beyond its share from others; more need not be proposed.
  const auto most = static_cast<int>(std::min(
      {kMostPerResponse, max_nodes, std::max(kOverdraft, kOverdraft * max_nodes / decoding)}));
  const double least = kLowestScore * LeastProbability(decoding, schedule_.cost());
  std::vector<DraftQuery> queries;
  queries.reserve(size_);
  for (size_t i = 0; i < size_; ++i) {
    queries.push_back({drafted_[i].cursor, most, &drafted_[i].proposal, least});
  }
  TreeCache::ProposeDrafts(queries);
}

// Moves `most` nodes of the proposals at most into `trees`. Returns how many these are.
int64_t TreeDrafter::Choose(size_t most, std::vector<engine::DraftTree>* trees) {
  probabilities_.resize(size_);
  for (size_t i = 0; i < size_; ++i) {
    Drafted& drafted = drafted_[i];
    stats_.matched += drafted.proposal.match_length > 0 ? 1 : 0;
    EvidenceOf(drafted.proposal, &drafted.evidence);
    drafted.chosen.assign(drafted.evidence.size(), -1);
    drafted.guesses.clear();
    probabilities_[i].clear();
    for (size_t node = 0; node < drafted.evidence.size(); ++node) {
      const int32_t parent = drafted.proposal.tree.parents[node];
      const double reached = parent < 0 ? 1 : probabilities_[i][static_cast<size_t>(parent)];
      probabilities_[i].push_back(reached * acceptance_.Of(drafted.evidence[node]));
    }
  }
  stats_.asked += static_cast<int64_t>(size_);
  const std::vector<ChosenNode> chosen =
      ChooseNodes(probabilities_, schedule_.decoding(), most, schedule_.cost());
  for (const auto& [i, node] : chosen) {
    Drafted& drafted = drafted_[i];
    const engine::DraftTree& proposal = drafted.proposal.tree;
    engine::DraftTree& draft = (*trees)[drafted.place];
    drafted.chosen[node] = static_cast<int32_t>(draft.size());
    const int32_t parent = proposal.parents[node];
    draft.tokens.push_back(proposal.tokens[node]);
    draft.parents.push_back(parent < 0 ? -1 : drafted.chosen[static_cast<size_t>(parent)]);
    drafted.guesses.push_back({drafted.evidence[node], draft.parents.back()});
  }
  stats_.proposed += static_cast<int64_t>(chosen.size());
  return static_cast<int64_t>(chosen.size());
}

std::vector<engine::DraftTree> TreeDrafter::Draft(absl::Span<const uint64_t> ids,
                                                  int64_t max_nodes) {
  std::vector<engine::DraftTree> trees(ids.size());
  if (ids.empty() || max_nodes < 1) return trees;
  const size_t asked = schedule_.Begin(ids.size(), max_nodes);
  DraftingEffort effort;
  const auto called = std::chrono::steady_clock::now();
  effort.followed = FollowAll(ids.subspan(0, asked));
  const auto began = std::chrono::steady_clock::now();
  effort.follow_seconds = Seconds(began - called);
  Propose(max_nodes);
  // Scores that were never tried may all be too high, and a full batch would pay for each.
  const int64_t most =
      acceptance_.Tried() ? max_nodes : std::min(max_nodes, schedule_.decoding() / 4 + kFirstNodes);
  effort.chosen = Choose(static_cast<size_t>(most), &trees);
  effort.draft_seconds = Seconds(std::chrono::steady_clock::now() - began);
  schedule_.NoteDrafts(effort);
  return trees;
}

void TreeDrafter::PassDone(int64_t rows, double seconds) {
  schedule_.NotePass(rows, seconds);
  acceptance_.Fade();
}

void TreeDrafter::End(uint64_t id) {
  unanswered_.erase(id);
  tracker_.End(id);
}

}  // namespace baton::rollout
