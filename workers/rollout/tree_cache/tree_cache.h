// The tree cache of speculative rollout: drafts for running responses, from earlier responses to
// the same prompt. Source: SRT (arXiv 2601.09083). docs/design/tree_cache.md explains it.
#ifndef BATON_WORKERS_ROLLOUT_TREE_CACHE_TREE_CACHE_H_
#define BATON_WORKERS_ROLLOUT_TREE_CACHE_TREE_CACHE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "workers/rollout/tree_cache/draft.h"
#include "workers/rollout/tree_cache/prompt_tree.h"

namespace baton::rollout {

struct TreeCacheOptions {
  /// Tokens of the longest string that is kept, 4 to 255. The context of a draft has at most half
  /// as many, so a draft may have half as many levels.
  int depth = 64;
  /// After this many actor updates a count is worth half. 0: counts never fade.
  double half_life_updates = 64;
  /// Bound of all trees together, at least 1 MiB. Exceeded while a tree grows, by at most half of
  /// that tree for each thread that appends.
  int64_t max_bytes = int64_t{4} << 30;
};

struct TreeCacheStats {
  int64_t prompts = 0;
  int64_t running_responses = 0;
  int64_t tokens = 0;  ///< of all responses kept
  int64_t bytes = 0;  ///< what the trees have allocated, their unused rest and the prompts included
  int64_t evicted_prompts = 0;
  int64_t stopped_responses = 0;  ///< see ResponseCursor
};

class TreeCache;

/// One running response. Its tokens go into the tree of its prompt as they are appended, so other
/// responses of the prompt profit at once. Its end is the destruction of the cursor. One thread at
/// a time; several cursors, of one prompt too, may be used by several threads.
///
/// If the cache is full and every prompt is in use, the cursor that asks for room is *stopped*:
/// what it has appended stays, later tokens are dropped, and its drafts are empty.
class alignas(64) ResponseCursor {
 public:
  ~ResponseCursor();
  ResponseCursor(const ResponseCursor&) = delete;
  ResponseCursor& operator=(const ResponseCursor&) = delete;

  /// Constant time for each token, amortised. INVALID_ARGUMENT, and nothing is appended: a token is
  /// not in [0, 2^31 - 3].
  absl::Status Append(absl::Span<const int32_t> tokens);

  /// At most `budget` tokens that may follow what was appended; none if nothing like it was seen. A
  /// response without tokens gets the beginnings of earlier ones.
  /// The vectors of `draft` keep their capacity. SuffixTree::ProposeDraft says which tokens.
  /// No token has a score below `least_score`.
  void ProposeDraft(int budget, Draft* draft, double least_score = 0);

  bool stopped() const { return stopped_; }

 private:
  friend class TreeCache;

  ResponseCursor(TreeCache* cache, PromptTree* tree) : tree_(tree), cache_(cache) {}
  void AppendPart(absl::Span<const int32_t> tokens);
  void Stop();

  PromptTree* const tree_;
  TreeCache* const cache_;
  bool stopped_ = false;
  GrowingText text_;  // guarded by the tree's mutex
};

/// One response of a batch. Neither pointer is null, and no cursor is in a batch twice.
struct DraftQuery {
  ResponseCursor* cursor;
  int budget;
  Draft* draft;
  double least_score = 0;
};

/// A tree for each prompt. Prompts with equal tokens share one, and no others do: the tokens
/// themselves are the key. Safe for concurrent use.
///
/// When the trees have more than max_bytes, the prompts without running responses are evicted that
/// were least useful: that predicted the fewest tokens per byte, faded like counts; among equals
/// the one used longest ago. A prompt whose tree has more than an eighth of max_bytes loses the
/// older half of what was said, unless running responses said it.
class TreeCache {
 public:
  /// INVALID_ARGUMENT names every option that is out of bounds.
  static absl::StatusOr<std::unique_ptr<TreeCache>> Create(const TreeCacheOptions& options);
  /// No cursor may be left.
  ~TreeCache();
  TreeCache(const TreeCache&) = delete;
  TreeCache& operator=(const TreeCache&) = delete;

  /// A response to `prompt` that a policy generates after `actor_updates` updates of the actor.
  /// The cache must outlive the cursor.
  std::unique_ptr<ResponseCursor> Begin(absl::Span<const int32_t> prompt, int64_t actor_updates);

  /// A whole response: of an earlier step, or one that was run ahead. Fails as Append does.
  absl::Status Add(absl::Span<const int32_t> prompt, absl::Span<const int32_t> response,
                   int64_t actor_updates);

  /// ProposeDraft of each.
  static void ProposeDrafts(absl::Span<const DraftQuery> queries);

  /// Tokens of the responses kept for a prompt; 0 if it is unknown.
  int64_t StoredTokens(absl::Span<const int32_t> prompt) const;
  TreeCacheStats stats() const;
  /// stats().bytes, counted afresh from what the trees hold.
  int64_t CountBytes() const;

 private:
  friend class ResponseCursor;

  struct Prompt {
    std::unique_ptr<PromptTree> tree;
    int64_t running = 0;
    uint64_t last_used = 0;  // grows with each use of any prompt
  };

  explicit TreeCache(const TreeCacheOptions& options) : options_(options) {}
  void Leave(const PromptTree& tree);
  void AddBytes(int64_t bytes) { bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  bool OverBudget() const { return bytes_.load(std::memory_order_relaxed) > options_.max_bytes; }
  bool MakeRoom();
  void Evict(absl::Span<const int32_t> prompt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const TreeCacheOptions options_;
  std::atomic<int64_t> bytes_{0}, stopped_responses_{0};

  // Taken before the mutex of a tree.
  mutable absl::Mutex mu_;
  // The key is the tree's own copy of the prompt.
  absl::flat_hash_map<absl::Span<const int32_t>, Prompt> prompts_ ABSL_GUARDED_BY(mu_);
  uint64_t uses_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t evicted_prompts_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_TREE_CACHE_TREE_CACHE_H_
