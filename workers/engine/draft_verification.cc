#include "workers/engine/draft_verification.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "sdk/base/mutant.h"

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
  if (Mutant("draft-taken-unjudged") && !sequence.draft().empty()) {
    sampled->token = sequence.draft().front();
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

}  // namespace

bool DrawAndVerify(Sequence& sequence, absl::Span<const float> logits, int64_t vocab_size,
                   Sampler& sampler, Verification* drawn) {
  GenerateUpdate& update = drawn->update;
  update.id = sequence.request.id;
  for (; !logits.empty(); logits.remove_prefix(vocab_size)) {
    const absl::Span<const int32_t> draft = sequence.draft();
    DrawToken(sequence, logits.first(vocab_size), sampler, update);
    if (draft.empty() || !update.error.ok()) return false;
    ++drawn->judged;
    if (sequence.response.back() == draft.front()) {
      ++update.draft_accepted;
    } else if (!Mutant("draft-outlives-its-difference")) {
      sequence.draft_failed = true;
      return false;
    }
    if (update.finished) return false;
  }
  return true;
}

}  // namespace baton::engine
