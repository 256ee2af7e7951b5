// The tree of one prompt: its lock, its fading counts, its worth. Private to the tree cache.
#ifndef BATON_WORKERS_ROLLOUT_TREE_CACHE_PROMPT_TREE_H_
#define BATON_WORKERS_ROLLOUT_TREE_CACHE_PROMPT_TREE_H_

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "workers/rollout/tree_cache/draft.h"
#include "workers/rollout/tree_cache/suffix_tree.h"

namespace baton::rollout {

/// Safe for concurrent use, but for one GrowingText, which one thread at a time may name. Each text
/// begins with kStartToken, so how responses to the prompt begin is known like the rest.
///
/// Counts fade forward: a suffix of a response made after u actor updates weighs
/// 2^((u - base) / half-life), so new ones weigh more and no old one must be touched. Only ratios
/// of counts matter. When the weights become large, all are divided and `base` moves.
///
/// A tree of more than `most_bytes` is built anew from the newer half of its tokens, unless running
/// responses have more than that: these always stay.
class alignas(64) PromptTree {
 public:
  PromptTree(absl::Span<const int32_t> prompt, int depth, double half_life_updates,
             int64_t most_bytes);

  absl::Span<const int32_t> prompt() const { return prompt_; }

  /// A response made after `actor_updates` updates. bytes_grown, here and below: the bytes that the
  /// tree has allocated more than before; less than 0 if it was built anew.
  void Start(GrowingText* text, int64_t actor_updates, int64_t* bytes_grown);
  /// False, and nothing is appended: the tree can hold no more.
  bool Append(GrowingText* text, absl::Span<const int32_t> tokens, int64_t* bytes_grown);
  void End(GrowingText* text, int64_t* bytes_grown);
  void ProposeDraft(GrowingText* text, int budget, Draft* draft, double least_score = 0);

  /// log2 of the tokens per byte that the tree predicted, faded; -infinity: it predicted none.
  double LogUsefulness() const;
  int64_t tokens() const;
  /// The first size plus bytes_grown of all calls.
  int64_t bytes() const;
  /// The same, counted afresh.
  int64_t CountBytes() const;

 private:
  float WeightOf(int64_t actor_updates) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Rebase(int64_t actor_updates) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TrimIfLarge() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t TakeGrowth() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  int64_t OwnBytes() const;

  // The members that each call reads stand in the first two cache lines.
  mutable absl::Mutex mu_;
  double predicted_ ABSL_GUARDED_BY(mu_) = 0;  // weights of the tokens that followed a match
  int64_t tokens_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t bytes_ ABSL_GUARDED_BY(mu_) = 0;  // of the tree
  int64_t base_updates_ ABSL_GUARDED_BY(mu_) = 0;
  SuffixTree tree_ ABSL_GUARDED_BY(mu_);
  bool used_ ABSL_GUARDED_BY(mu_) = false;

  const std::vector<int32_t> prompt_;
  const double half_life_updates_;
  const int64_t most_bytes_;
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_TREE_CACHE_PROMPT_TREE_H_
