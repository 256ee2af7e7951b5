// A fetcher that fills the trees of prompts that are new to this replica with their responses from
// elsewhere.
//
// A worker that is new, or replaced another, or gets a prompt that another one had, begins without
// trees. The responses are in the experience log of the controller.
#ifndef BATON_WORKERS_ROLLOUT_SPECULATION_HISTORY_FETCHER_H_
#define BATON_WORKERS_ROLLOUT_SPECULATION_HISTORY_FETCHER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "workers/rollout/speculation/tree_drafter.h"

namespace baton::rollout {

/// A prompt of the job's data.
struct HistoryPrompt {
  bool of_evaluation = false;  ///< A prompt of the validation data, whose ids are counted apart.
  uint64_t prompt_id = 0;
  std::vector<int32_t> tokens;
};

/// A response that was made before.
struct HistoryResponse {
  std::vector<int32_t> prompt, tokens;
  uint64_t policy_version = 0;  ///< 0: of another job.
};

/// The source of histories.
class HistorySource {
 public:
  virtual ~HistorySource() = default;
  /// The responses to these prompts: the newest response of each prompt first. Blocks. One call at
  /// a time.
  virtual absl::StatusOr<std::vector<HistoryResponse>> Fetch(
      absl::Span<const HistoryPrompt> prompts) = 0;
  /// Ends that call and every later one at once, with an error. Any thread may call it.
  virtual void Cancel() = 0;
};

struct HistoryFetcherOptions {
  size_t most_waiting = 1024;                      ///< Prompts; further ones are left out.
  size_t most_at_once = 32;                        ///< Prompts of one Fetch.
  int most_tries = 4;                              ///< For one prompt.
  absl::Duration rest = absl::Seconds(1);          ///< After an error …
  absl::Duration longest_rest = absl::Minutes(1);  ///< … twice as long after each next one.
};

/// Asks once for each prompt, on a thread of its own, with one Fetch at a time. Nothing waits for
/// it: a response that is generated meanwhile gets drafts once there are some. An error that
/// another try does not mend (such as a controller that does not know the call) ends it.
/// Thread-safe.
class HistoryFetcher {
 public:
  /// `drafter` outlives the call of Stop.
  HistoryFetcher(std::unique_ptr<HistorySource> source, TreeDrafter* drafter,
                 HistoryFetcherOptions options = {});
  ~HistoryFetcher();

  /// A response to the prompt is about to be generated. Returns at once.
  void Ask(HistoryPrompt prompt);
  /// Afterwards the drafter is not used any more. Returns promptly. May be called twice.
  void Stop();
  /// Tokens that were added since the last call.
  int64_t TakeTokens() { return tokens_.exchange(0); }

 private:
  struct Waiting {
    HistoryPrompt prompt;
    int tries = 0;
  };
  void Work();
  /// The next prompts to ask for; none: it is stopping.
  std::vector<Waiting> Await();
  void Add(absl::Span<const HistoryPrompt> prompts, absl::Span<const HistoryResponse> history);
  /// Asks again after a rest. False: that would be of no use.
  bool Rest(const absl::Status& error, std::vector<Waiting> failed);
  bool Wakes() const ABSL_SHARED_LOCKS_REQUIRED(mu_) { return stopping_ || !waiting_.empty(); }
  bool stopping() const {
    absl::MutexLock lock(&mu_);
    return stopping_;
  }

  const std::unique_ptr<HistorySource> source_;
  TreeDrafter* const drafter_;
  const HistoryFetcherOptions options_;
  std::atomic<int64_t> tokens_{0};
  mutable absl::Mutex mu_;
  absl::flat_hash_set<uint64_t> asked_ ABSL_GUARDED_BY(mu_);  // prompts
  std::deque<Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Duration rest_;  // on thread_
  std::thread thread_;
};

}  // namespace baton::rollout

#endif  // BATON_WORKERS_ROLLOUT_SPECULATION_HISTORY_FETCHER_H_
