// Drafts for the responses of one replica, from a tree cache, within a budget that pays.
#ifndef BATON_WORKERS_ROLLOUT_SPECULATION_TREE_DRAFTER_H_
#define BATON_WORKERS_ROLLOUT_SPECULATION_TREE_DRAFTER_H_

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "workers/engine/drafter.h"
#include "workers/rollout/speculation/acceptance.h"
#include "workers/rollout/speculation/draft_budget.h"
#include "workers/rollout/speculation/gain_guard.h"
#include "workers/rollout/speculation/pass_cost.h"
#include "workers/rollout/tree_cache/tree_cache.h"

namespace baton::rollout {

/// What a drafter did since it was made.
struct TreeDrafterStats {
  int64_t asked = 0;     ///< Responses for which a draft was wanted.
  int64_t matched = 0;   ///< Of these: those like which something was seen before.
  int64_t proposed = 0;  ///< Draft tokens within the budget.
  int64_t verified = 0;  ///< Of these: computed in a pass.
  int64_t accepted = 0;  ///< Of these: what was drawn.
};

/// Follows the responses that a generator makes: their tokens go into the trees, so that the other
/// responses to a prompt profit at once. For each pass it drafts the running responses and cuts the
/// drafts to what pays (draft_budget.h). One thread at a time.
class TreeDrafter : public engine::Drafter {
 public:
  explicit TreeDrafter(std::unique_ptr<TreeCache> cache) : cache_(std::move(cache)) {}

  /// Responses that begin from now on are of weights after so many updates of the actor.
  void SetActorUpdates(int64_t updates) { actor_updates_ = updates; }

  void Begin(uint64_t id, absl::Span<const int32_t> prompt,
             absl::Span<const int32_t> resumed) override;
  void Append(uint64_t id, absl::Span<const int32_t> tokens, int64_t verified) override;
  std::vector<engine::DraftTree> Draft(absl::Span<const uint64_t> ids, int64_t max_nodes) override;
  void PassDone(int64_t rows, double seconds) override;
  void End(uint64_t id) override;

  const TreeDrafterStats& stats() const { return stats_; }
  const TreeCache& cache() const { return *cache_; }

 private:
  struct Response {
    std::unique_ptr<ResponseCursor> cursor;
    rollout::Draft draft;  // the last one, cut to its budget
    bool asked = false;    // for the pass that follows
  };
  // The pass that drafts were made for.
  struct Pass {
    int64_t decoding = 0;  // responses
    int64_t drafted = 0;   // nodes proposed
    double draft_seconds = 0;
    // What came of it.
    int64_t rows = 0, verified = 0, tokens = 0;
    double seconds = 0;
  };
  void Judge(Response& response, absl::Span<const int32_t> tokens, int64_t verified);
  std::vector<DraftQuery> Propose(absl::Span<const uint64_t> ids, int64_t max_nodes);
  int64_t CutToBudgets(absl::Span<const DraftQuery> queries, int64_t decoding, int64_t max_nodes);
  void Settle();

  const std::unique_ptr<TreeCache> cache_;
  int64_t actor_updates_ = 0;
  std::unordered_map<uint64_t, Response> responses_;
  PassCost cost_;
  Acceptance acceptance_;
  GainGuard guard_;
  Pass pass_;
  TreeDrafterStats stats_;
  // Where nothing paid lately, it is not even asked what might: to draft costs time as well.
  int64_t vain_ = 0;  // drafts in a row for which the budget was zero
  int64_t rest_ = 0;  // passes without drafts that are left
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_SPECULATION_TREE_DRAFTER_H_
