#include "workers/engine/loss/log_probs.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/model/attention.h"
#include "workers/engine/model/exceptions.h"
#include "workers/engine/model/vocabulary_parallel.h"

namespace baton::engine {
namespace {

constexpr int64_t kMaxLogits = int64_t{1} << 25;

/// log-probs [M] of one micro-batch. `likeliest`, if not null: adds the targets that are.
torch::Tensor ScoreRows(CausalLM& model, const PackedRows& packed, double temperature,
                        double* likeliest = nullptr) {
  torch::NoGradGuard no_grad;
  const torch::Tensor states = PredictionStates(model, packed);
  const torch::Tensor targets = packed.targets.to(model.device());
  const int64_t piece = RowsPerPiece(model.config());
  std::vector<torch::Tensor> log_probs;
  for (int64_t begin = 0; begin < states.size(0); begin += piece) {
    const int64_t length = std::min(piece, states.size(0) - begin);
    const torch::Tensor logits = model.LocalLogits(states.narrow(0, begin, length));
    const torch::Tensor wanted = targets.narrow(0, begin, length);
    log_probs.push_back(
        ScoreTokens(logits, wanted, temperature, EntropyMode::kNone, ScoringOf(model)).log_probs);
    if (likeliest == nullptr) continue;
    *likeliest += static_cast<double>(
        IsLargest(logits, wanted, model.vocabulary_shard()).sum().item<int64_t>());
  }
  return torch::cat(log_probs).to(torch::kCPU, torch::kFloat64);
}

absl::StatusOr<std::vector<std::vector<int64_t>>> PlanScoring(const CausalLM& model,
                                                              absl::Span<const TrainSequence> batch,
                                                              ResponseRows which,
                                                              int64_t max_token_len) {
  BATON_RETURN_IF_ERROR(ValidateSequences(batch, model.config()));
  std::vector<int64_t> lengths;
  for (const TrainSequence& s : batch) {
    const int64_t wanted = which == ResponseRows::kAll ? s.response_length() : s.CountUnmasked();
    lengths.push_back(wanted > 0 ? InputLength(s) : 0);
  }
  return PlanMicroBatches(lengths, TokenBudget(max_token_len, lengths));
}

}  // namespace

int64_t TokenBudget(int64_t max_token_len, absl::Span<const int64_t> lengths) {
  if (max_token_len > 0 || lengths.empty()) return max_token_len;
  return std::max(kDefaultMaxTokenLen, *std::max_element(lengths.begin(), lengths.end()));
}

int64_t RowsPerPiece(const ModelConfig& config) {
  return std::max<int64_t>(1, kMaxLogits / config.vocab_size);
}

Scoring ScoringOf(const CausalLM& model) {
  return {model.vocabulary_shard(), model.deterministic()};
}

torch::Tensor PredictionStates(CausalLM& model, const PackedRows& packed) {
  PackedAttentionOptions options;
  options.deterministic = model.deterministic();
  if (options.deterministic) options.prompt_lengths = packed.prompt_lengths;
  PackedCausalAttention attention(packed.lengths, options);
  const torch::Tensor hidden = model.Hidden(packed.tokens.to(model.device()),
                                            attention.Positions().to(model.device()), attention);
  return hidden.index_select(0, packed.prediction_rows.to(model.device()));
}

absl::StatusOr<std::vector<std::vector<float>>> ComputeLogProbs(
    CausalLM& model, absl::Span<const TrainSequence> batch, double temperature,
    int64_t max_token_len) {
  LossSpec policy;
  policy.temperature = temperature;
  BATON_RETURN_IF_ERROR(Validate(policy));
  BATON_ASSIGN_OR_RETURN(const auto plan,
                         PlanScoring(model, batch, ResponseRows::kAll, max_token_len));
  std::vector<std::vector<float>> result(batch.size());
  try {
    for (const auto& indices : plan) {
      const PackedRows packed = PackRows(batch, indices, ResponseRows::kAll);
      const torch::Tensor log_probs = ScoreRows(model, packed, temperature);
      const double* values = log_probs.data_ptr<double>();
      for (size_t m = 0; m < packed.sequence_index.size(); ++m) {
        if (std::isnan(values[m])) {
          return absl::FailedPreconditionError(absl::StrCat(
              "sequence ", packed.sequence_index[m], ", response token ", packed.response_index[m],
              ": its log-prob is not a number (diverged "
              "weights)"));
        }
        result[packed.sequence_index[m]].push_back(static_cast<float>(values[m]));
      }
    }
  } catch (const std::exception& e) {
    return FromException(e);
  }
  return result;
}

absl::StatusOr<ResponseReport> EvaluateResponses(CausalLM& model,
                                                 absl::Span<const TrainSequence> batch,
                                                 int64_t max_token_len) {
  BATON_ASSIGN_OR_RETURN(const auto plan,
                         PlanScoring(model, batch, ResponseRows::kUnmasked, max_token_len));
  if (plan.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch of ", batch.size(), " sequences has no unmasked response token"));
  }
  double sum = 0, tokens = 0, likeliest = 0;
  try {
    for (const auto& indices : plan) {
      const torch::Tensor log_probs =
          ScoreRows(model, PackRows(batch, indices, ResponseRows::kUnmasked), 1, &likeliest);
      sum -= log_probs.sum(torch::kFloat64).item<double>();
      tokens += static_cast<double>(log_probs.numel());
    }
  } catch (const std::exception& e) {
    return FromException(e);
  }
  return ResponseReport{sum / tokens, likeliest / tokens};
}

}  // namespace baton::engine
