// The sampler, which turns one row of logits into a token and its log-probability.
#ifndef BATON_WORKERS_ENGINE_GENERATION_SAMPLER_H_
#define BATON_WORKERS_ENGINE_GENERATION_SAMPLER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace baton::engine {

/// The settings by which a response is drawn and ends.
struct SamplingParams {
  double temperature = 1;                 // 0: greedy
  int64_t top_k = 0;                      // keep the k most probable tokens; 0: all
  double top_p = 1;                       // then the fewest whose probability reaches p, in (0, 1]
  int64_t max_new_tokens = 0;             // response length limit, tokens
  int64_t min_new_tokens = 0;             // no stop before so many tokens
  std::vector<int64_t> stop_token_ids;    // any of these ends the response and belongs to it
  std::vector<std::string> stop_strings;  // so does text that contains any of these
};

/// InvalidArgument, naming every field that is out of range; token ids must be below `vocab_size`.
absl::Status ValidateSamplingParams(const SamplingParams& params, int64_t vocab_size);

/// True when tokens may be drawn from less than the full softmax, so that the two log-probs of a
/// SampledToken may differ.
bool Truncates(const SamplingParams& params);

struct SampledToken {
  int32_t token = 0;
  // Under softmax(logits / temperature), nothing cut or banned: row_softmax.h's LogProb, bitwise,
  // which a trainer computes from the same logits. With temperature 0 under softmax(logits).
  float log_prob = 0;
  // Under the distribution that it was drawn from. With temperature 0 the same as log_prob: a draw
  // without chance weighs nothing.
  float sampling_log_prob = 0;
};

/// Draws tokens. Holds scratch memory only: one per thread, any order of rows.
class Sampler {
 public:
  /// Draws by inverse CDF, in token-id order and accumulated in float64, from
  /// softmax(logits / temperature), then cut to the `top_k` most probable, then to the smallest set
  /// whose share reaches `top_p`, then renormalised. Equal logits rank by id, the lower first.
  /// With temperature 0 the most probable token.
  ///
  /// `banned` ids have probability 0. `uniform` is in [0, 1). The result depends on the arguments
  /// alone. InvalidArgument when a logit is NaN or +inf, or when no token has a probability.
  absl::StatusOr<SampledToken> Sample(absl::Span<const float> logits, const SamplingParams& params,
                                      absl::Span<const int64_t> banned, double uniform);

 private:
  void KeepTopK(absl::Span<const float> logits, float maximum, int64_t k);
  void KeepTopP(double p);
  double SumBlocks();
  int32_t Invert(double target) const;

  std::vector<float> unbanned_;                  // logits with banned ones at -inf
  std::vector<float> weights_;                   // exp((logit - max) / temperature), 0 if cut
  std::vector<double> block_sums_;               // of weights_, kSummedIds ids each
  std::vector<float> ranked_;                    // scratch of KeepTopK
  std::vector<std::pair<float, int64_t>> heap_;  // scratch of KeepTopP
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_GENERATION_SAMPLER_H_
