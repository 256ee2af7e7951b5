// Draws a sequence's next tokens from the rows of one forward pass, and judges its draft by them.
// Private to the generator.
//
// A draft is a guess at the next tokens. One forward pass computes all of them, and so yields the
// distribution after each. The tokens are then drawn in order, each from the model's own
// distribution and with the trajectory's own uniform of its position. While draw and draft are
// equal, the next row has the right context. The first draw that differs is kept, and the rows
// behind it are not looked at. So a response never depends on a draft. This is not the rejection
// sampling of Leviathan et al., "Fast Inference from Transformers via Speculative Decoding" (2023),
// which keeps the distribution of a response but not its tokens.
#ifndef BATON_WORKERS_ENGINE_DRAFT_VERIFICATION_H_
#define BATON_WORKERS_ENGINE_DRAFT_VERIFICATION_H_

#include <cstdint>

#include "absl/types/span.h"
#include "workers/engine/generator.h"
#include "workers/engine/generator_scheduler.h"
#include "workers/engine/sampler.h"

namespace baton::engine {

/// What the draws from one sequence's rows came to.
struct Verification {
  GenerateUpdate update;
  int64_t judged = 0;  // draft tokens that a draw was compared with
};

/// Draws tokens from rows of one pass, at least one unless its logits leave nothing to draw, and
/// adds them to the response and to `drawn`. Stops at the end of the response (the update is then
/// finished), at the first draw that differs from the draft (the draft has failed then), and after
/// the last row.
///
/// `logits` [n, vocab_size]: the first row follows the response, and row i follows it and the first
/// i tokens of the draft, which has at least n - 1. Returns true if all n tokens are the draft's
/// and the response goes on: a further row of the pass then has the right context.
bool DrawAndVerify(Sequence& sequence, absl::Span<const float> logits, int64_t vocab_size,
                   Sampler& sampler, Verification* drawn);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_DRAFT_VERIFICATION_H_
