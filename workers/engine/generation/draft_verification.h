// Verification of drafts: draws a sequence's next tokens from the rows of one forward pass, and
// judges its draft by them. Private to the generator.
//
// A draft is a tree of guesses at the next tokens. One forward pass computes all its nodes, and so
// yields the distribution after each. The tokens are then drawn in order, each from the model's own
// distribution and with the trajectory's own uniform of its position. If the draw is a child of the
// node that it follows, that child's row has the right context for the next draw. A draw that is no
// child is kept as well, and ends the draft. Rows off that path are not looked at. So a response
// never depends on a draft. This is not the rejection sampling of Leviathan et al., "Fast Inference
// from Transformers via Speculative Decoding" (2023), which keeps the distribution of a response
// but not its tokens.
#ifndef BATON_WORKERS_ENGINE_GENERATION_DRAFT_VERIFICATION_H_
#define BATON_WORKERS_ENGINE_GENERATION_DRAFT_VERIFICATION_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "workers/engine/generation/generate_request.h"
#include "workers/engine/generation/generator_scheduler.h"
#include "workers/engine/generation/sampler.h"

namespace baton::engine {

/// The outcome of the draws from one sequence's rows.
struct Verification {
  GenerateUpdate update;
  std::vector<int32_t>
      path;            // nodes of the draft that were drawn, each the child of the one before
  int64_t judged = 0;  // nodes that a draw was compared with: all children of a node

  /// The row of the draw that the next token follows: 0 is the response's last token, i + 1 node i.
  int64_t next_row() const { return path.empty() ? 0 : path.back() + 1; }
};

/// Draws tokens from rows of one pass, at least one unless the logits leave nothing to draw, and
/// adds them to the response and to `drawn`. Stops at the end of the response (the update is then
/// finished), at the first token that is no node of the draft, after a node that has no row, and
/// where `logits` have no row for the next token.
///
/// `logits` [n, vocab_size]: of the draw's rows from `first_row` on, which is at most
/// drawn->next_row(). Returns true in the last case alone: drawn->next_row() is still to be drawn
/// from.
bool DrawAndVerify(const StepPlan::Draw& draw, int64_t first_row, absl::Span<const float> logits,
                   int64_t vocab_size, Sampler& sampler, Verification* drawn);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_GENERATION_DRAFT_VERIFICATION_H_
