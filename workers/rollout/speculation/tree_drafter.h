// Drafts for the responses of one replica, from a tree cache, within a budget that pays.
#ifndef BATON_WORKERS_ROLLOUT_SPECULATION_TREE_DRAFTER_H_
#define BATON_WORKERS_ROLLOUT_SPECULATION_TREE_DRAFTER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "workers/engine/generation/drafter.h"
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

/// Follows the responses that a generator makes: their tokens go into the trees, and the other
/// responses to a prompt profit while they still run. For each pass it drafts the running responses
/// and chooses the nodes that pay (draft_budget.h). One thread at a time.
///
/// A token goes into its tree when a draft is wanted, and at the latest some thousand tokens later.
/// So where drafts do not pay, many tokens go at once, and the tree comes once for all of them into
/// the CPU's caches. Responses that ended before any of it was in a tree wait for that, too;
/// CatchUp follows them while nothing else is to do. If a million of their tokens wait, the oldest
/// are forgotten. What other replicas said may be added by other threads meanwhile.
///
/// A full batch seldom gains from drafts. So as long as it is not known that it does, a few of its
/// responses alone are drafted, and followed: to try costs next to nothing.
class TreeDrafter : public engine::Drafter {
 public:
  explicit TreeDrafter(std::unique_ptr<TreeCache> cache);

  /// Responses that begin from now on are of weights after so many updates of the actor. If that
  /// is less than before, the actor went back to a checkpoint: what the lost updates said fades as
  /// if the actor had gone as far ahead.
  void SetActorUpdates(int64_t updates);

  void Begin(uint64_t id, absl::Span<const int32_t> prompt,
             absl::Span<const int32_t> resumed) override;
  void Append(uint64_t id, absl::Span<const int32_t> tokens, int64_t verified) override;
  bool WantsToDraft(int64_t decoding) override;
  std::vector<engine::DraftTree> Draft(absl::Span<const uint64_t> ids, int64_t max_nodes) override;
  void PassDone(int64_t rows, double seconds) override;
  void End(uint64_t id) override;

  /// All responses from now on are run ahead, or not: whether drafts pay for those says nothing of
  /// the others, which have the history that these make.
  void SetAhead(bool ahead);

  /// Follows responses that ended, of about `tokens` tokens. True: more of them wait.
  bool CatchUp(int64_t tokens);

  /// A whole response that was made elsewhere, or at another time, by that version of the policy;
  /// 0: by that of another job, which counts like the first. Running responses to the prompt profit
  /// at once. Fails as TreeCache::Add. Thread-safe.
  absl::Status AddEarlier(absl::Span<const int32_t> prompt, absl::Span<const int32_t> response,
                          uint64_t policy_version);
  /// Something is in the prompt's tree. Thread-safe.
  bool Knows(absl::Span<const int32_t> prompt) const { return cache_->StoredTokens(prompt) > 0; }

  const TreeDrafterStats& stats() const { return stats_; }
  const TreeCache& cache() const { return *cache_; }

 private:
  struct Response {
    std::vector<int32_t> prompt;
    uint64_t prompt_hash = 0;
    int64_t age = 0;                         // as TreeCache.Begin's actor_updates
    std::vector<int32_t> waiting;            // tokens that are not in the tree
    std::unique_ptr<ResponseCursor> cursor;  // null: none is
    bool asked = false;                      // for the pass that follows
    rollout::Draft proposal;                 // of the tree; the last one
    engine::DraftTree draft;                 // the nodes of `proposal` that were chosen …
    std::vector<NodeEvidence> evidence;      // … and what was known of them
  };
  // A response that has ended. None of its tokens is in a tree yet.
  struct Said {
    std::vector<int32_t> prompt, tokens;
    int64_t age = 0;  // as above
    int64_t size() const { return static_cast<int64_t>(prompt.size() + tokens.size()); }
  };
  struct Ended {
    uint64_t prompt_hash = 0;
    std::deque<Said> responses;  // at least one
  };
  // A forward pass, and the drafts that were made for it.
  struct Pass {
    int64_t decoding = 0;            // responses
    bool asked = false;              // drafts were made, though perhaps none was chosen
    bool ahead = false;              // nothing was made in earnest
    bool drafted_elsewhere = false;  // some responses had drafts that were not made here
    int64_t unasked = 0;             // responses for which none was made
    int64_t followed = 0;            // tokens that went into trees
    int64_t drafted = 0;             // nodes proposed
    double follow_seconds = 0, draft_seconds = 0;
    // What came of it.
    int64_t rows = 0, verified = 0, tokens = 0;
    double seconds = 0;
  };
  bool Follow(Response& response);
  Said TakeFirst(std::list<Ended>::iterator ended);
  int64_t FollowFirst(std::list<Ended>::iterator ended);
  void Judge(Response& response, absl::Span<const int32_t> tokens, int64_t verified);
  std::vector<Response*> FollowAll(absl::Span<const uint64_t> ids);
  void Propose(absl::Span<Response* const> responses, int64_t decoding, int64_t max_nodes);
  int64_t Choose(absl::Span<Response* const> responses, int64_t decoding, int64_t max_nodes);
  void Settle();
  bool Rests(int64_t decoding);
  bool MayPayAtAll(int64_t decoding);
  void RestIfInVain();
  GainGuard& GuardOf(int64_t decoding);
  size_t Asked(size_t responses);

  const std::unique_ptr<TreeCache> cache_;
  mutable absl::Mutex age_mu_;  // others read what the drafter's thread writes
  int64_t actor_updates_ ABSL_GUARDED_BY(age_mu_) = -1;  // -1: not told yet
  int64_t age_ ABSL_GUARDED_BY(age_mu_) = 0;             // grows with each change of actor_updates_
  std::unordered_map<uint64_t, Response> responses_;
  // In the order in which their first responses ended; equal hashes of prompts do no harm.
  std::list<Ended> ended_;
  std::unordered_map<uint64_t, std::list<Ended>::iterator> ended_of_prompt_;
  int64_t ended_tokens_ = 0;  // of all, those of their prompts included
  PassCost cost_;
  Acceptance acceptance_;
  // By the number of decoding responses, in powers of two: drafts may pay beside few alone.
  static constexpr size_t kGuards = 16;
  std::array<GainGuard, kGuards> guards_;
  Pass pass_;
  bool ahead_ = false;
  TreeDrafterStats stats_;
  // Of Choose, by response: kept for its memory.
  struct Scratch {
    std::vector<NodeProbabilities> probabilities;
    std::vector<std::vector<NodeEvidence>> evidence;
  };
  Scratch scratch_;
  // Where nothing paid lately, it is not even asked what might: to draft costs time as well.
  int64_t vain_ = 0;               // drafts in a row for which the budget was zero
  int64_t rest_ = 0;               // passes without drafts that are left
  int64_t learning_ = 0;           // passes while the cost of a row was not known
  int64_t most_nodes_ = 1;         // of the last call
  double seconds_a_response_ = 0;  // that drafting took, faded
  int64_t passes_ = 0;
  int64_t asked_in_a_row_ = 0;  // passes
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_SPECULATION_TREE_DRAFTER_H_
