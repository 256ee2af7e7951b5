// The run of an epoch in small pieces, so that several ways to generate it can take turns on one
// thread.
//
// A machine that other programs use changes its speed within seconds. Runs one after the other then
// differ by more than what is to be measured. Runs that take turns of some milliseconds do the same
// work in the same seconds, so the machine's changes hit all of them alike.
#ifndef BATON_BENCH_SPECULATION_EPOCH_RUN_H_
#define BATON_BENCH_SPECULATION_EPOCH_RUN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "bench/speculation/speculation_traces.h"
#include "workers/engine/generation/drafter.h"
#include "workers/engine/generation/generator.h"
#include "workers/engine/model/model.h"

namespace baton::bench {

struct EpochOptions {
  uint64_t epoch = 0;        // other epochs draw with other random numbers
  int64_t running = 1;       // responses at once
  int64_t draft_tokens = 0;  // that one pass may verify
};

/// CPU time of this thread so far, without the time in which other programs had the core.
double ThreadSeconds();

/// One epoch that is being generated, with a generator and a cache of keys and values of its own.
/// Several may share a model. The requests were added in the order of their numbers, which are
/// their ids. Any error ends the program.
class EpochRun {
 public:
  /// The outcome of a turn.
  struct Turn {
    int64_t tokens = 0;
    double cpu_seconds = 0;   // of the thread
    double wall_seconds = 0;  // of the clock on the wall
  };

  /// `model`, `load` and `drafter` must outlive this. `drafter` may be null.
  EpochRun(engine::CausalLM& model, const EpochLoad& load, const EpochOptions& options,
           engine::Drafter* drafter);
  /// Ends what still runs, at the drafter too.
  ~EpochRun() { generator_->SetDrafter(nullptr); }

  /// Steps until all turns together made at least `tokens` tokens, or the epoch is over.
  void AdvanceTo(int64_t tokens);

  bool done() const { return generator_->idle(); }
  /// As far as it got.
  const Epoch& epoch() const { return epoch_; }
  engine::DraftStats drafts() const { return generator_->stats().drafts; }
  const std::vector<Turn>& turns() const { return turns_; }

 private:
  void Step();

  std::unique_ptr<engine::Generator> generator_;
  Epoch epoch_;
  std::vector<Turn> turns_;
};

/// A whole epoch at once.
Epoch RunEpoch(engine::CausalLM& model, const EpochLoad& load, const EpochOptions& options,
               engine::Drafter* drafter);

struct TurnOptions {
  int64_t tokens = 0;  // that each run makes in a turn, about
  double seconds = 0;  // no round begins later
};

/// Lets the runs take turns, until all are over or the time is up. Returns what is left of it. In
/// each round each run has one turn, in random order, and makes the tokens that it lacks to the
/// round's number. So all have done the same work after each round, but for what their last passes
/// made.
double TakeTurns(absl::Span<EpochRun* const> runs, const TurnOptions& options);

/// All tokens and all time of some turns.
EpochRun::Turn SumOf(absl::Span<const EpochRun::Turn> turns);

/// The speedup of one way over another: the other's seconds per token divided by this one's.
struct Speedup {
  double cpu = 0, wall = 0;  // over all turns
  // Speedups in CPU time of equal parts of the run: median, tenth and ninetieth percentile.
  double median = 0, low = 0, high = 0;
};
/// The speedup between two ways that took turns; needs as many turns of both.
Speedup SpeedupOf(absl::Span<const EpochRun::Turn> turns, absl::Span<const EpochRun::Turn> base);

}  // namespace baton::bench

#endif  // BATON_BENCH_SPECULATION_EPOCH_RUN_H_
