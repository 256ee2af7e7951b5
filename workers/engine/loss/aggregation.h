// The aggregation of token losses into the loss of a mini-batch.
//
// Every aggregation users know is a weighted sum in which all unmasked tokens of one sequence have
// the same weight, known before any forward pass. Gradient accumulation is therefore exact: each
// micro-batch adds sum(weight * token loss) of its own tokens, and nothing is divided afterwards.
//
//   n_i: unmasked tokens of sequence i;  S: sequences with n_i > 0;  N: sum of n_i
//   token-mean                1 / N                  (DAPO)
//   seq-mean-token-sum        1 / S
//   seq-mean-token-mean       1 / (S n_i)            (GRPO)
//   seq-mean-token-sum-norm   1 / (S scale)          (Dr.GRPO; scale is the same for all sequences)
#ifndef BATON_WORKERS_ENGINE_LOSS_AGGREGATION_H_
#define BATON_WORKERS_ENGINE_LOSS_AGGREGATION_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace baton::engine {

enum class LossAggregation {
  kTokenMean,
  kSeqMeanTokenSum,
  kSeqMeanTokenMean,
  kSeqMeanTokenSumNorm,
};

/// By the names above. InvalidArgument lists the valid ones.
absl::StatusOr<LossAggregation> ParseLossAggregation(absl::string_view name);

/// The weight of an unmasked token of each sequence; `counts` are the n_i of the WHOLE mini-batch.
/// `scale` is used by seq-mean-token-sum-norm alone and must be positive there. Sequences without
/// unmasked tokens get 0 and count for nothing.
std::vector<double> TokenWeights(LossAggregation aggregation, absl::Span<const int64_t> counts,
                                 double scale);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_LOSS_AGGREGATION_H_
