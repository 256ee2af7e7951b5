// The responses that a generator makes, on their way into the trees of a tree cache.
#ifndef BATON_WORKERS_ROLLOUT_SPECULATION_RESPONSE_TRACKER_H_
#define BATON_WORKERS_ROLLOUT_SPECULATION_RESPONSE_TRACKER_H_

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "workers/rollout/tree_cache/tree_cache.h"

namespace baton::rollout {

/// Owns the trees, and the tokens that are not in them yet. One thread at a time, but for
/// AddEarlier and Knows.
///
/// A token goes into its tree when a draft is wanted (Follow), and at the latest some thousand
/// tokens later. So where drafts do not pay, many tokens go at once, and the tree comes once for
/// all of them into the CPU's caches. Responses that ended before any of it was in a tree wait for
/// that, too; CatchUp follows them while nothing else is to do. If a million of their tokens wait,
/// the oldest are forgotten.
class ResponseTracker {
 public:
  explicit ResponseTracker(std::unique_ptr<TreeCache> cache) : cache_(std::move(cache)) {}

  /// Responses that begin from now on are of weights after so many updates of the actor. If that is
  /// less than before, there was a rollback to a checkpoint: responses of the lost updates fade as
  /// if the actor had gone as far ahead.
  void SetActorUpdates(int64_t updates);

  /// As Drafter's. A response whose `resumed` tokens are none is forgotten when it is followed.
  void Begin(uint64_t id, absl::Span<const int32_t> prompt, absl::Span<const int32_t> resumed);
  void Append(uint64_t id, absl::Span<const int32_t> tokens);
  void End(uint64_t id);

  /// Puts the tokens of a begun response into its tree, and before them those of responses to the
  /// prompt that ended, unless `followed` is large already. Adds to `followed` how many tokens
  /// these were. Returns the response's cursor, which holds until the response ends; null: there is
  /// no such response.
  ResponseCursor* Follow(uint64_t id, int64_t* followed);

  /// Follows responses that ended, of about `tokens` tokens. True: more of them wait.
  bool CatchUp(int64_t tokens);

  /// A whole response that was made elsewhere, or at another time, by that version of the policy;
  /// 0: by that of another job, which counts like the first. Running responses to the prompt profit
  /// at once. Fails as TreeCache::Add. Thread-safe.
  absl::Status AddEarlier(absl::Span<const int32_t> prompt, absl::Span<const int32_t> response,
                          uint64_t policy_version);
  /// Something is in the prompt's tree. Thread-safe.
  bool Knows(absl::Span<const int32_t> prompt) const { return cache_->StoredTokens(prompt) > 0; }

  const TreeCache& cache() const { return *cache_; }

 private:
  struct Running {
    std::vector<int32_t> prompt;
    uint64_t prompt_hash = 0;
    int64_t age = 0;                         // as TreeCache.Begin's actor_updates
    std::vector<int32_t> waiting;            // tokens that are not in the tree
    std::unique_ptr<ResponseCursor> cursor;  // null: no token is
  };
  // A response that ended. None of its tokens is in a tree yet.
  struct Said {
    std::vector<int32_t> prompt, tokens;
    int64_t age = 0;  // as above
    int64_t size() const { return static_cast<int64_t>(prompt.size() + tokens.size()); }
  };
  struct Ended {
    uint64_t prompt_hash = 0;
    std::deque<Said> responses;  // at least one
  };
  bool PutIntoTree(Running& response);
  void Wait(Running response);
  Said TakeFirst(std::list<Ended>::iterator ended);
  int64_t FollowFirst(std::list<Ended>::iterator ended);

  const std::unique_ptr<TreeCache> cache_;
  mutable absl::Mutex age_mu_;  // others read what the drafter's thread writes
  int64_t actor_updates_ ABSL_GUARDED_BY(age_mu_) = -1;  // -1: not told yet
  int64_t age_ ABSL_GUARDED_BY(age_mu_) = 0;             // grows with each change of actor_updates_
  std::unordered_map<uint64_t, Running> running_;
  // In the order in which their first responses ended; equal hashes of prompts do no harm.
  std::list<Ended> ended_;
  std::unordered_map<uint64_t, std::list<Ended>::iterator> ended_of_prompt_;
  int64_t ended_tokens_ = 0;  // of all, those of their prompts included
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_SPECULATION_RESPONSE_TRACKER_H_
