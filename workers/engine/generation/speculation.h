// The generator's link to a drafter: keeps it informed, asks it for drafts, and counts the outcomes
// of all drafts. Private to the generator.
#ifndef BATON_WORKERS_ENGINE_GENERATION_SPECULATION_H_
#define BATON_WORKERS_ENGINE_GENERATION_SPECULATION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "workers/engine/generation/draft_stats.h"
#include "workers/engine/generation/draft_tree.h"
#include "workers/engine/generation/draft_verification.h"
#include "workers/engine/generation/drafter.h"
#include "workers/engine/generation/generate_request.h"
#include "workers/engine/generation/generator_scheduler.h"

namespace baton::engine {

/// Owned by a generator; one thread at a time, as the generator.
class Speculation {
 public:
  using Clock = std::chrono::steady_clock;

  /// `max_nodes`: GeneratorOptions.max_draft_nodes. `vocab_size`: of the model.
  Speculation(int64_t max_nodes, int64_t vocab_size)
      : max_nodes_(max_nodes), vocab_size_(vocab_size) {}

  /// Ends every request at the drafter that was set before. Those requests get no more drafts.
  void SetDrafter(Drafter* drafter);

  /// A request enters.
  void Begin(const GenerateRequest& request);
  /// Responses go on, or end.
  void Follow(const std::vector<GenerateUpdate>& updates);
  /// All requests end.
  void EndAll();

  /// Drafts for those of `decoding` that have no draft of their own, by id; max_nodes together, and
  /// pruned to what may follow.
  std::vector<std::pair<uint64_t, DraftTree>> Ask(const std::vector<const Sequence*>& decoding);
  /// Instead of Ask, while memory may become short.
  void AskNothing();

  /// Counts a draw of a pass and what came of it.
  void Count(const StepPlan::Draw& draw, const Verification& drawn);
  /// Counts a pass. It computed `rows` rows; `draft_rows` of them were nodes of drafts.
  void CountPass(int64_t rows, int64_t draft_rows, Clock::duration time);

  const DraftStats& stats() const { return stats_; }

 private:
  // A draft of drafter_. Its nodes have the indices of the tree that drafter_ proposed.
  struct Proposed {
    std::vector<int32_t> nodes;  // those left after pruning
    size_t computed = 0;         // of `nodes`, the first ones
    std::vector<int32_t> path;   // as DraftOutcome.path
  };
  DraftOutcome OutcomeOf(uint64_t id) const;

  const int64_t max_nodes_;
  const int64_t vocab_size_;
  Drafter* drafter_ = nullptr;
  std::unordered_set<uint64_t> begun_;               // at drafter_
  std::unordered_map<uint64_t, Proposed> proposed_;  // for the pass
  DraftStats stats_;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_GENERATION_SPECULATION_H_
