// The interface of drafters, which propose drafts to a generator while it generates. Without
// libtorch.
#ifndef BATON_WORKERS_ENGINE_GENERATION_DRAFTER_H_
#define BATON_WORKERS_ENGINE_GENERATION_DRAFTER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "workers/engine/generation/draft_tree.h"

namespace baton::engine {

/// The outcome of a drafter's tree in the pass that it was proposed for. Nodes have the indices of
/// that tree.
struct DraftOutcome {
  absl::Span<const int32_t> computed;  // nodes, in their order
  /// Nodes that were drawn: a root, its child, and so on. There may have been no room to compute
  /// the last one.
  absl::Span<const int32_t> path;
};

/// Follows responses token by token, and guesses how they go on. A generator (SetDrafter) calls it
/// on the thread of its own caller, between forward passes: each microsecond here delays every
/// response. No method throws.
class Drafter {
 public:
  virtual ~Drafter() = default;

  /// A request was added. `resumed`: its response's first tokens, if it was begun elsewhere.
  virtual void Begin(uint64_t id, absl::Span<const int32_t> prompt,
                     absl::Span<const int32_t> resumed) = 0;

  /// The response of a begun request went on by `tokens`, at least one. `outcome`: of its draft for
  /// the pass that yielded them; empty if it had none, or there was no room.
  virtual void Append(uint64_t id, absl::Span<const int32_t> tokens,
                      const DraftOutcome& outcome) = 0;

  /// A pass comes that decodes `decoding` responses. False: Draft is not called for it. Neither is
  /// called for a pass before which memory may become short.
  virtual bool WantsToDraft(int64_t decoding) = 0;

  /// Drafts of what follows the tokens of begun requests, one for each id, in their order. An empty
  /// tree is no guess. All drafts together may have `max_nodes` nodes, at least 1; those beyond are
  /// cut off, from the last draft on. Within a draft those come first that are most likely, for
  /// there may be room for the first ones alone.
  virtual std::vector<DraftTree> Draft(absl::Span<const uint64_t> ids, int64_t max_nodes) = 0;

  /// A forward pass computed so many rows, those of drafts among them, in so many seconds.
  virtual void PassDone(int64_t rows, double seconds) = 0;

  /// A begun request ended, however it did. Its id may begin again.
  virtual void End(uint64_t id) = 0;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_GENERATION_DRAFTER_H_
