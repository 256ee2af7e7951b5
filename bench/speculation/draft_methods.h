// Methods of guessing how a response goes on, to be compared on recorded responses. All of them
// know the same: the responses that were begun before, and the one that goes on now as far as it is
// known.
#ifndef BATON_BENCH_SPECULATION_DRAFT_METHODS_H_
#define BATON_BENCH_SPECULATION_DRAFT_METHODS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "bench/speculation/speculation_traces.h"
#include "workers/engine/generation/draft_tree.h"

namespace baton::bench {

/// Hears of responses one after the other. One thread.
class DraftMethod {
 public:
  virtual ~DraftMethod() = default;
  virtual void Begin(absl::Span<const int32_t> prompt) = 0;
  virtual void Append(absl::Span<const int32_t> tokens) = 0;
  /// A draft of what follows in the response that was begun last. At most `budget` nodes.
  virtual engine::DraftTree Draft(int64_t budget) = 0;
  virtual void End() = 0;
};

struct NamedDraftMethod {
  std::string name;
  std::unique_ptr<DraftMethod> method;
};

/// Each knows nothing yet:
///   path_score     what a rollout uses: a tree for each prompt, the likeliest paths first
///   global_tree    the same with one tree for all prompts
///   random_tree    nodes of the prompt's tree in random order, parents before their children
///   suffix_chain   what followed the longest suffix of the response (up to 63 tokens) that a
///                  response to the prompt had, where it was seen last
///   ngram          the same, but for suffixes of at most 3 tokens
///   prompt_lookup  the same as ngram, within the prompt and the response itself
std::vector<NamedDraftMethod> AllDraftMethods();

/// Tells `method` of the epochs before the last one. Then replays the last one, a response after
/// the other: each pass drafts `budget` nodes, and yields those that the response does go on with
/// and one token more. Returns the accepted nodes of a pass, passes without a draft included.
double AcceptedPerDraft(DraftMethod& method, const EpochLoad& load,
                        const std::vector<Epoch>& epochs, int64_t budget);

}  // namespace baton::bench

#endif  // BATON_BENCH_SPECULATION_DRAFT_METHODS_H_
