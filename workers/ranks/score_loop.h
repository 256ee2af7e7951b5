// The loop of a scoring model, on the one thread on which it computes: requests in one by one,
// micro-batches through the model, answers out one by one.
//
// Ranks that hold one model together (a tensor group) have a loop each, and compute alike. Rank 0
// leads: it gets the requests, and tells the others over a control group what comes next; all ranks
// follow the order of its loop. A second thread of the others hears it, whatever they do meanwhile,
// so that silence means loss: at the leader's next word, within a few seconds, or at once when a
// connection closes.
#ifndef BATON_WORKERS_RANKS_SCORE_LOOP_H_
#define BATON_WORKERS_RANKS_SCORE_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "workers/engine/generation/leader_channel.h"
#include "workers/engine/loss/micro_batch.h"
#include "workers/engine/model/communicator.h"

namespace baton::ranks {

/// One sequence that waits for its numbers.
struct ScoreRequest {
  engine::TrainSequence sequence;
  /// True once no caller wants the answer; it gets CANCELLED without being computed. May be null.
  std::function<bool()> cancelled;
  /// Called exactly once, on the loop's thread; must not block.
  std::function<void(absl::StatusOr<std::vector<float>>)> done;
};

/// Thread-safe. Work is taken in the order of the calls: requests that wait go together into one
/// forward pass, as many as fit the budget. A sequence's numbers do not depend on that when the
/// model is deterministic (workers/engine/model/model.h).
///
/// With several ranks, once one is lost (Unavailable or DeadlineExceeded, from the model, from work
/// or on the control group) or fails at a pass apart from the others (the model's Internal), the
/// loop is broken for good: what waits and what comes is answered with Unavailable or
/// DeadlineExceeded, and nothing is computed.
class ScoreLoop {
 public:
  /// Numbers for each sequence of a micro-batch, in its order. With several ranks it may look at
  /// tokens and prompt_length alone.
  using Score = std::function<absl::StatusOr<std::vector<std::vector<float>>>(
      absl::Span<const engine::TrainSequence>)>;

  struct Options {
    absl::Duration keep_alive = absl::Seconds(2);  ///< engine::GroupLeader.
    /// The most by which another rank may be told later than the leader to run the same work.
    absl::Duration patience = absl::Seconds(60);
  };

  /// `control`: ranks of the model's tensor group in the same order, used for nothing else, whose
  /// timeout is above Options.keep_alive; null: this loop is alone. The leader is heard from here
  /// on, before Start: models take differently long to load.
  explicit ScoreLoop(std::unique_ptr<engine::Communicator> control, const Options& options);
  explicit ScoreLoop(std::unique_ptr<engine::Communicator> control = nullptr)
      : ScoreLoop(std::move(control), Options()) {}
  /// Waiting requests are answered CANCELLED; running ones are waited for. The leader tells the
  /// others to end; another rank leaves at the leader's next word, which breaks the others' loops.
  ~ScoreLoop();

  /// Once. `max_token_len`: tokens of a micro-batch, padding to the longest sequence included; a
  /// longer sequence goes alone. Everything that `score` uses must outlive the loop; no other
  /// thread may touch it but in RunAlone.
  void Start(int64_t max_token_len, Score score);

  /// A micro-batch that fails is computed again one by one, so that a bad sequence fails alone.
  /// FAILED_PRECONDITION, from this call, on a rank that does not lead.
  void Add(ScoreRequest request);

  /// Waits until every request added before is answered, then runs `work` on the loop's thread with
  /// nothing else under way. An exception of `work` is Internal.
  ///
  /// With several ranks all of them call this in one order, and `work` of a rank that does not lead
  /// runs when the leader runs its own. `order` tells them that it is the same; ranks at different
  /// ones are broken. Until it runs, such a rank gives up when `cancelled` (may be null) turns
  /// true.
  absl::Status RunAlone(std::function<absl::Status()> work, uint64_t order = 0,
                        const std::function<bool()>& cancelled = nullptr);

  struct Stats {
    int64_t sequences = 0;  ///< Computed so far, by the rank that answers them.
    int64_t batches = 0;    ///< In so many forward passes.
  };
  Stats stats() const;

 private:
  struct Item;
  struct Inbox;
  void Work();
  void FollowWork();
  void Hear();
  void Answer(std::vector<ScoreRequest> batch);
  absl::StatusOr<std::vector<std::vector<float>>> Compute(
      absl::Span<engine::TrainSequence> sequences);
  void Run(Item item);
  absl::Status FollowRun(uint64_t order);
  /// The leader's word, if it leads; else nothing.
  absl::Status Say(const std::vector<int64_t>& words);
  void Break(const absl::Status& why);
  /// Lets the others notice that this loop is broken.
  void Hush();
  void Refuse(const absl::Status& why);

  const Options options_;
  const bool alone_;
  const bool follows_;
  const std::shared_ptr<Inbox> inbox_;  ///< Shared with the callers that wait for work.
  std::atomic<bool> leaving_{false};    ///< The hearing thread shall end.

  int64_t max_token_len_ = 0;
  Score score_;

  /// The hearing thread's, or the leader's: its loop's, and its constructor's and destructor's.
  std::unique_ptr<engine::Communicator> control_;
  std::unique_ptr<engine::GroupLeader> leader_;
  std::thread hearer_;  ///< Only on a rank that does not lead.
  std::thread thread_;
};

}  // namespace baton::ranks

#endif  // BATON_WORKERS_RANKS_SCORE_LOOP_H_
