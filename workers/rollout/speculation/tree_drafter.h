// Drafts for the responses of one replica, from a tree cache, within a budget that pays.
#ifndef BATON_WORKERS_ROLLOUT_SPECULATION_TREE_DRAFTER_H_
#define BATON_WORKERS_ROLLOUT_SPECULATION_TREE_DRAFTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "workers/engine/generation/drafter.h"
#include "workers/rollout/speculation/acceptance.h"
#include "workers/rollout/speculation/draft_budget.h"
#include "workers/rollout/speculation/draft_schedule.h"
#include "workers/rollout/speculation/response_tracker.h"
#include "workers/rollout/tree_cache/tree_cache.h"

namespace baton::rollout {

/// Counts of a drafter's work since it was made.
struct TreeDrafterStats {
  int64_t asked = 0;     ///< Responses for which a draft was wanted.
  int64_t matched = 0;   ///< Those of them after which something was seen before.
  int64_t proposed = 0;  ///< Draft tokens within the budget.
  int64_t verified = 0;  ///< Proposed nodes that were computed in a pass.
  int64_t accepted = 0;  ///< Verified nodes that were drawn.
};

/// Follows the responses that a generator makes (ResponseTracker): their tokens go into the trees,
/// and the other responses to a prompt profit while they still run. For the passes of its schedule
/// (DraftSchedule) it drafts the running responses, chooses the nodes that pay (draft_budget.h),
/// and learns which of them are accepted (Acceptance). One thread at a time, but for AddEarlier and
/// Knows: what other replicas said may be added by other threads meanwhile.
class TreeDrafter : public engine::Drafter {
 public:
  explicit TreeDrafter(std::unique_ptr<TreeCache> cache) : tracker_(std::move(cache)) {}

  void Begin(uint64_t id, absl::Span<const int32_t> prompt,
             absl::Span<const int32_t> resumed) override {
    tracker_.Begin(id, prompt, resumed);
  }
  void Append(uint64_t id, absl::Span<const int32_t> tokens,
              const engine::DraftOutcome& outcome) override;
  bool WantsToDraft(int64_t decoding) override {
    return schedule_.WantsToDraft(decoding, acceptance_.Best());
  }
  std::vector<engine::DraftTree> Draft(absl::Span<const uint64_t> ids, int64_t max_nodes) override;
  void PassDone(int64_t rows, double seconds) override;
  void End(uint64_t id) override;

  /// As ResponseTracker's.
  void SetActorUpdates(int64_t updates) { tracker_.SetActorUpdates(updates); }
  bool CatchUp(int64_t tokens) { return tracker_.CatchUp(tokens); }
  absl::Status AddEarlier(absl::Span<const int32_t> prompt, absl::Span<const int32_t> response,
                          uint64_t policy_version) {
    return tracker_.AddEarlier(prompt, response, policy_version);
  }
  bool Knows(absl::Span<const int32_t> prompt) const { return tracker_.Knows(prompt); }
  /// As DraftSchedule's.
  void SetAhead(bool ahead) { schedule_.SetAhead(ahead); }

  const TreeDrafterStats& stats() const { return stats_; }
  const TreeCache& cache() const { return tracker_.cache(); }

 private:
  // A node of a response's draft.
  struct Guess {
    NodeEvidence evidence;
    int32_t parent = -1;  // of the draft; -1: none
    bool computed = false, drawn = false;
  };
  // A response that is drafted for the pass.
  struct Drafted {
    size_t place = 0;  // among those that may have a draft
    ResponseCursor* cursor = nullptr;
    rollout::Draft proposal;             // of the tree
    std::vector<NodeEvidence> evidence;  // of its nodes
    std::vector<int32_t> chosen;         // of its nodes, their indices in the draft
    std::vector<Guess> guesses;          // the nodes that were chosen
  };
  int64_t FollowAll(absl::Span<const uint64_t> ids);
  void Propose(int64_t max_nodes);
  int64_t Choose(size_t most, std::vector<engine::DraftTree>* trees);
  void Judge(std::vector<Guess>& guesses, const engine::DraftOutcome& outcome);

  ResponseTracker tracker_;
  DraftSchedule schedule_;
  Acceptance acceptance_;
  TreeDrafterStats stats_;
  // The first size_ of drafted_ are of the last pass with drafts; the others are kept for their
  // memory.
  std::vector<Drafted> drafted_;
  size_t size_ = 0;
  std::vector<NodeProbabilities> probabilities_;     // of the proposals
  std::unordered_map<uint64_t, size_t> unanswered_;  // in drafted_; by response
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_SPECULATION_TREE_DRAFTER_H_
