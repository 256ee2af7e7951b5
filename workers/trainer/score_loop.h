// The one thread on which a scoring model computes: requests in one by one, micro-batches through
// the model, answers out one by one.
#ifndef BATON_WORKERS_TRAINER_SCORE_LOOP_H_
#define BATON_WORKERS_TRAINER_SCORE_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "workers/engine/micro_batch.h"

namespace baton::trainer {

/// One sequence that waits for its numbers.
struct ScoreRequest {
  engine::TrainSequence sequence;
  /// True once nobody wants the answer; it then gets CANCELLED without being computed. May be null.
  std::function<bool()> cancelled;
  /// Called exactly once, on the loop's thread; must not block.
  std::function<void(absl::StatusOr<std::vector<float>>)> done;
};

/// Thread-safe. Work is taken in the order of the calls: requests that wait go together into one
/// forward pass, as many as fit the budget. What a sequence gets does not depend on that when the
/// model is deterministic (engine/model.h).
class ScoreLoop {
 public:
  /// Numbers for each sequence of a micro-batch, in its order.
  using Score = std::function<absl::StatusOr<std::vector<std::vector<float>>>(
      absl::Span<const engine::TrainSequence>)>;

  /// `max_token_len`: tokens of a micro-batch, padding to the longest sequence included; a longer
  /// sequence goes alone. What `score` uses must outlive the loop, and nobody else may touch it
  /// but in RunAlone.
  ScoreLoop(int64_t max_token_len, Score score);
  /// What waits is answered CANCELLED.
  ~ScoreLoop();

  /// A micro-batch that fails is computed again one by one, so that a bad sequence fails alone.
  void Add(ScoreRequest request);

  /// Waits until every request added before is answered, then runs `work` on the loop's thread with
  /// nothing else under way.
  absl::Status RunAlone(std::function<absl::Status()> work);

  struct Stats {
    int64_t sequences = 0;  ///< Computed so far.
    int64_t batches = 0;    ///< In so many forward passes.
  };
  Stats stats() const;

 private:
  struct Item;
  struct Inbox;
  void Work();
  void Answer(std::vector<ScoreRequest> batch);

  const int64_t max_token_len_;
  const Score score_;
  const std::unique_ptr<Inbox> inbox_;
  std::thread thread_;
};

}  // namespace baton::trainer

#endif  // BATON_WORKERS_TRAINER_SCORE_LOOP_H_
