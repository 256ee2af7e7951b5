#include "workers/engine/generation/draft_verification.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace baton::engine {
namespace {

// Draws the next token of `sequence` and adds it to `update`, or the error that there is none.
void DrawToken(Sequence& sequence, absl::Span<const float> logits, Sampler& sampler,
               GenerateUpdate& update) {
  const SamplingParams& params = sequence.request.params;
  const int64_t position = static_cast<int64_t>(sequence.response.size());
  absl::Span<const int64_t> banned;
  if (position < params.min_new_tokens) banned = params.stop_token_ids;
  absl::StatusOr<SampledToken> sampled =
      sampler.Sample(logits, params, banned, sequence.uniforms.At(static_cast<uint32_t>(position)));
  if (!sampled.ok()) {
    // Not the caller's mistake: another worker, or the same one once more, may do better.
    update.error = absl::InternalError(
        absl::StrCat("response token ", position, ": ", sampled.status().message()));
    update.finish_reason = "error";
    update.finished = true;
    return;
  }
  const absl::Span<const int32_t> chain = sequence.chain();
  if (!chain.empty() && sampled->token == chain.front()) {
    ++update.draft_accepted;
  } else {
    sequence.chain_failed = true;
  }
  sequence.response.push_back(sampled->token);
  update.new_tokens.push_back(sampled->token);
  update.new_log_probs.push_back(sampled->log_prob);
  update.new_sampling_log_probs.push_back(sampled->sampling_log_prob);
  if (sequence.stops.Append(sampled->token)) {
    update.finish_reason = "stop";
  } else if (position + 1 >= params.max_new_tokens) {
    update.finish_reason = "length";
  }
  update.finished = !update.finish_reason.empty();
}

// Compares a token with the nodes that follow `node` (-1: the response); counts them. Returns the
// equal one, or -1.
int32_t Judge(const DraftTree& draft, int32_t node, int32_t token, int64_t* judged) {
  int32_t equal = -1;
  for (auto i = static_cast<size_t>(node + 1); i < draft.parents.size(); ++i) {
    if (draft.parents[i] != node) continue;
    ++*judged;
    if (draft.tokens[i] == token) equal = static_cast<int32_t>(i);
  }
  return equal;
}

}  // namespace

bool DrawAndVerify(const StepPlan::Draw& draw, int64_t first_row, absl::Span<const float> logits,
                   int64_t vocab_size, Sampler& sampler, Verification* drawn) {
  Sequence& sequence = *draw.sequence;
  drawn->update.id = sequence.request.id;
  const int64_t end_row = first_row + static_cast<int64_t>(logits.size()) / vocab_size;
  while (drawn->next_row() < end_row) {
    const int64_t row = drawn->next_row();
    DrawToken(sequence, logits.subspan((row - first_row) * vocab_size, vocab_size), sampler,
              drawn->update);
    if (!drawn->update.error.ok()) return false;
    const int32_t node =
        Judge(draw.draft, static_cast<int32_t>(row - 1), sequence.response.back(), &drawn->judged);
    if (node < 0) return false;
    drawn->path.push_back(node);
    if (drawn->update.finished || node >= draw.draft_rows) return false;
  }
  return true;
}

}  // namespace baton::engine
