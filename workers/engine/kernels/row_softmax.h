// The softmax of a row of logits, and the log-prob of a token under it. Rollout and trainer both
// take a log-prob from here, so that they agree bitwise where their logits do.
//
// With m the highest logit, s the scale and w_i = exp((x_i - m) s) in float32:
//   log_prob(t) = (x_t - m) s - log(sum of w_i)      in float64, the sum in a fixed order
#ifndef BATON_WORKERS_ENGINE_KERNELS_ROW_SOFTMAX_H_
#define BATON_WORKERS_ENGINE_KERNELS_ROW_SOFTMAX_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace baton::engine {

struct RowMaximum {
  float value = 0;   ///< -infinity for an empty row. Not to be used if `nan`.
  bool nan = false;  ///< A logit is NaN.
};
RowMaximum MaximumOf(absl::Span<const float> logits);

/// The factor of logits: 1 / temperature, bounded so that it stays finite; 1 for 0, which is
/// greedy.
double LogitScale(double temperature);

/// weights = exp((logits - maximum) scale), one per logit.
void SoftmaxWeights(absl::Span<const float> logits, float maximum, double scale,
                    std::vector<float>* weights);

constexpr int64_t kSummedIds = 256;  ///< Ids of a block of SumWeights.

/// The sum of all weights, block by block. `block_sums`, if not null, receives those of the blocks.
double SumWeights(absl::Span<const float> weights, std::vector<double>* block_sums = nullptr);

/// The log-prob of a token of this logit; `total` is the sum of the weights.
double LogProbOf(float logit, float maximum, double scale, double total);

/// The log-prob of `token` under softmax(logits / temperature); of temperature 0 under
/// softmax(logits). NaN if a logit is NaN or the highest is infinite. `weights` is scratch.
float LogProb(absl::Span<const float> logits, int64_t token, double temperature,
              std::vector<float>* weights);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_KERNELS_ROW_SOFTMAX_H_
