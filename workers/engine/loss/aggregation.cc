#include "workers/engine/loss/aggregation.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton::engine {

absl::StatusOr<LossAggregation> ParseLossAggregation(absl::string_view name) {
  if (name == "token-mean") return LossAggregation::kTokenMean;
  if (name == "seq-mean-token-sum") return LossAggregation::kSeqMeanTokenSum;
  if (name == "seq-mean-token-mean") return LossAggregation::kSeqMeanTokenMean;
  if (name == "seq-mean-token-sum-norm") return LossAggregation::kSeqMeanTokenSumNorm;
  return absl::InvalidArgumentError(
      absl::StrCat("loss_agg_mode: '", name,
                   "' is not token-mean, seq-mean-token-sum, seq-mean-token-mean or "
                   "seq-mean-token-sum-norm"));
}

std::vector<double> TokenWeights(LossAggregation aggregation, absl::Span<const int64_t> counts,
                                 double scale) {
  int64_t tokens = 0;
  int64_t sequences = 0;
  for (int64_t count : counts) {
    tokens += count;
    sequences += count > 0 ? 1 : 0;
  }
  std::vector<double> weights;
  weights.reserve(counts.size());
  for (int64_t count : counts) {
    if (count == 0) {
      weights.push_back(0);
      continue;
    }
    switch (aggregation) {
      case LossAggregation::kTokenMean:
        weights.push_back(1.0 / tokens);
        break;
      case LossAggregation::kSeqMeanTokenSum:
        weights.push_back(1.0 / sequences);
        break;
      case LossAggregation::kSeqMeanTokenMean:
        weights.push_back(1.0 / sequences / count);
        break;
      case LossAggregation::kSeqMeanTokenSumNorm:
        weights.push_back(1.0 / sequences / scale);
        break;
    }
  }
  return weights;
}

}  // namespace baton::engine
