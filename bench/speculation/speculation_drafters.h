// Drafters that show the worth of one part of speculation: one that knows what will be drawn, one
// whose responses do not learn from each other, and one that does not notice other programs.
#ifndef BATON_BENCH_SPECULATION_SPECULATION_DRAFTERS_H_
#define BATON_BENCH_SPECULATION_SPECULATION_DRAFTERS_H_

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "bench/speculation/epoch_run.h"
#include "bench/speculation/speculation_traces.h"
#include "workers/engine/generation/drafter.h"
#include "workers/rollout/speculation/tree_drafter.h"
#include "workers/rollout/tree_cache/tree_cache.h"

namespace baton::bench {

/// Proposes what the responses do say, as they are in `epoch`, which must outlive it. All running
/// responses get as long a chain, within the nodes of a pass and at most `most` each. A response's
/// last token is not proposed: it is drawn, but never computed.
class OracleDrafter : public engine::Drafter {
 public:
  OracleDrafter(const Epoch* epoch, int64_t most) : epoch_(*epoch), most_(most) {}

  void Begin(uint64_t id, absl::Span<const int32_t> prompt,
             absl::Span<const int32_t> resumed) override;
  void Append(uint64_t id, absl::Span<const int32_t> tokens,
              const engine::DraftOutcome& outcome) override;
  bool WantsToDraft(int64_t decoding) override { return true; }
  std::vector<engine::DraftTree> Draft(absl::Span<const uint64_t> ids, int64_t max_nodes) override;
  void PassDone(int64_t rows, double seconds) override {}
  void End(uint64_t id) override { said_.erase(id); }

 private:
  const Epoch& epoch_;
  const int64_t most_;
  std::unordered_map<uint64_t, size_t> said_;  // tokens so far
};

/// The drafter of a rollout, but each response has a tree of its own: it knows what its history
/// says, and what it has said itself.
class IsolatedDrafter : public rollout::TreeDrafter {
 public:
  /// `history` is in `cache` by KeyOf of each response that will know it.
  explicit IsolatedDrafter(std::unique_ptr<rollout::TreeCache> cache)
      : TreeDrafter(std::move(cache)) {
    SetActorUpdates(1);
  }
  /// Stands for the prompt of the response `id` in the cache.
  static std::vector<int32_t> KeyOf(absl::Span<const int32_t> prompt, uint64_t id);

  void Begin(uint64_t id, absl::Span<const int32_t> prompt,
             absl::Span<const int32_t> resumed) override {
    TreeDrafter::Begin(id, KeyOf(prompt, id), resumed);
  }
};

/// Tells another drafter of the CPU time of passes instead of their wall-clock time. So it decides
/// as on a machine that runs nothing else. The other one must outlive it.
class CpuClockDrafter : public engine::Drafter {
 public:
  explicit CpuClockDrafter(engine::Drafter* drafter) : drafter_(*drafter) {}

  void Begin(uint64_t id, absl::Span<const int32_t> prompt,
             absl::Span<const int32_t> resumed) override {
    drafter_.Begin(id, prompt, resumed);
  }
  void Append(uint64_t id, absl::Span<const int32_t> tokens,
              const engine::DraftOutcome& outcome) override {
    drafter_.Append(id, tokens, outcome);
  }
  bool WantsToDraft(int64_t decoding) override;
  std::vector<engine::DraftTree> Draft(absl::Span<const uint64_t> ids, int64_t max_nodes) override;
  void PassDone(int64_t rows, double seconds) override;
  void End(uint64_t id) override { drafter_.End(id); }

 private:
  engine::Drafter& drafter_;
  double asked_at_ = 0;  // ThreadSeconds
};

/// The responses that a history is made of, by their numbers.
using History = std::vector<std::vector<int32_t>>;

History ResponsesOf(const Epoch& epoch);

/// Tokens by turns: so many that are right, then so many random ones, and so on.
struct Stretches {
  size_t right = 0, random = 0;
};
/// The responses of `epoch` with stretches replaced by random tokens, as a history that misleads a
/// drafter.
History MisleadingHistory(const Epoch& epoch, const Stretches& stretches, int64_t vocab_size);

/// A rollout's drafter that has seen `history`.
std::unique_ptr<rollout::TreeDrafter> DrafterWith(const EpochLoad& load, const History& history);
/// As above, for an IsolatedDrafter: each response knows the history of its prompt. An empty
/// history is none.
std::unique_ptr<rollout::TreeDrafter> IsolatedDrafterWith(const EpochLoad& load,
                                                          const History& history);

}  // namespace baton::bench

#endif  // BATON_BENCH_SPECULATION_SPECULATION_DRAFTERS_H_
