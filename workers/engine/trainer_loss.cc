#include "workers/engine/trainer_loss.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace baton::engine {
namespace {

double SumOf(const torch::Tensor& t) { return t.sum().item<double>(); }

/// A column per response token, or one value for all of them.
float At(const std::vector<float>& column, int64_t index) {
  return column.size() == 1 ? column[0] : column[index];
}

absl::Status CheckColumn(size_t sequence, const TrainSequence& s, const std::vector<float>& column,
                         absl::string_view name, bool broadcast) {
  const int64_t size = static_cast<int64_t>(column.size());
  if (size != s.response_length() && !(broadcast && size == 1)) {
    return absl::InvalidArgumentError(absl::StrCat("sequence ", sequence, ": ", name, " has ", size,
                                                   " values for a response of ",
                                                   s.response_length(), " tokens"));
  }
  for (int64_t r = 0; r < s.response_length(); ++r) {
    if (!s.loss_mask.empty() && s.loss_mask[r] == 0) continue;
    if (!std::isfinite(At(column, r))) {
      return absl::InvalidArgumentError(absl::StrCat("sequence ", sequence, ", response token ", r,
                                                     ": ", name, " is ", At(column, r)));
    }
  }
  return absl::OkStatus();
}

absl::Status NotFinite(const torch::Tensor& token_losses, const torch::Tensor& log_probs,
                       absl::FunctionRef<std::string(int64_t)> name_row) {
  const torch::Tensor bad = torch::isfinite(token_losses).logical_not().nonzero();
  if (bad.numel() == 0)
    return absl::FailedPreconditionError("the sum of the token losses overflows");
  const int64_t row = bad.flatten()[0].item<int64_t>();
  return absl::FailedPreconditionError(absl::StrCat(name_row(row), ": the loss is ",
                                                    token_losses[row].item<double>(), " (log-prob ",
                                                    log_probs[row].item<double>(), ")"));
}

}  // namespace

LossColumns LossColumns::Narrow(int64_t begin, int64_t length) const {
  const auto narrow = [&](const torch::Tensor& t) {
    return t.defined() ? t.narrow(0, begin, length) : t;
  };
  return {narrow(weights), narrow(old_log_probs), narrow(advantages), narrow(ref_log_probs)};
}

LossColumns MakeLossColumns(absl::Span<const TrainSequence> batch,
                            absl::Span<const double> sequence_weights, const PackedRows& packed,
                            const LossSpec& loss, const torch::TensorOptions& options) {
  const size_t rows = packed.sequence_index.size();
  std::vector<double> values(rows);
  const auto column = [&](auto value_of) {
    for (size_t m = 0; m < rows; ++m) {
      values[m] = value_of(packed.sequence_index[m], packed.response_index[m]);
    }
    return torch::tensor(at::ArrayRef<double>(values), torch::kFloat64).to(options);
  };
  LossColumns columns;
  columns.weights = column([&](int64_t i, int64_t) { return sequence_weights[i]; });
  if (loss.kind == LossSpec::kPpoClip) {
    columns.old_log_probs =
        column([&](int64_t i, int64_t r) { return batch[i].behaviour_log_probs[r]; });
    columns.advantages = column([&](int64_t i, int64_t r) { return At(batch[i].advantages, r); });
  }
  if (loss.use_kl_loss) {
    columns.ref_log_probs = column([&](int64_t i, int64_t r) { return batch[i].ref_log_probs[r]; });
  }
  return columns;
}

absl::Status ValidateLossColumns(absl::Span<const TrainSequence> batch, const LossSpec& loss) {
  for (size_t i = 0; i < batch.size(); ++i) {
    const TrainSequence& s = batch[i];
    if (s.CountUnmasked() == 0) continue;
    absl::Status status;
    if (loss.kind == LossSpec::kPpoClip) {
      status = CheckColumn(i, s, s.behaviour_log_probs, "behaviour_log_probs", false);
      if (status.ok()) status = CheckColumn(i, s, s.advantages, "advantages", true);
    }
    if (status.ok() && loss.use_kl_loss) {
      status = CheckColumn(i, s, s.ref_log_probs, "ref_log_probs", false);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<torch::Tensor> WeightedLoss(const torch::Tensor& logits,
                                           const torch::Tensor& targets, const LossColumns& columns,
                                           const LossSpec& loss,
                                           absl::FunctionRef<std::string(int64_t)> name_row,
                                           LossSums& sums, const VocabularyShard& shard) {
  const bool ppo = loss.kind == LossSpec::kPpoClip;
  const EntropyMode entropy_mode = loss.entropy_coeff != 0 ? EntropyMode::kGradient
                                   : ppo                   ? EntropyMode::kValue
                                                           : EntropyMode::kNone;
  const TokenScores scores = ScoreTokens(logits, targets, loss.temperature, entropy_mode, shard);
  PpoClipTerms ppo_terms;
  if (ppo) {
    ppo_terms = PpoClip(scores.log_probs, columns.old_log_probs, columns.advantages, loss);
  }
  const torch::Tensor policy_loss = ppo ? ppo_terms.loss : scores.log_probs.neg();
  torch::Tensor token_loss = policy_loss;
  if (loss.entropy_coeff != 0) token_loss = token_loss - loss.entropy_coeff * scores.entropy;
  torch::Tensor kl;
  if (loss.use_kl_loss) {
    kl = KlPenalty(scores.log_probs, columns.ref_log_probs, loss.kl_loss_type);
    token_loss = token_loss + loss.kl_loss_coef * kl;
  }
  torch::Tensor total = (token_loss * columns.weights).sum();

  torch::NoGradGuard no_grad;
  const double value = total.item<double>();
  if (!std::isfinite(value)) return NotFinite(token_loss, scores.log_probs, name_row);
  sums.tokens += static_cast<double>(targets.numel());
  sums.loss += token_loss.is_same(policy_loss) ? value : SumOf(policy_loss * columns.weights);
  if (kl.defined()) sums.kl_loss += SumOf(kl * columns.weights);
  if (scores.entropy.defined()) sums.entropy += SumOf(scores.entropy);
  if (ppo) {
    sums.clipped += SumOf(ppo_terms.clipped);
    sums.clipped_lower += SumOf(ppo_terms.clipped_lower);
    sums.ppo_kl += SumOf(ppo_terms.kl);
  }
  return total;
}

void AddMetrics(const LossSums& sums, const LossSpec& loss, std::map<std::string, double>& totals) {
  const double tokens = sums.tokens;
  if (loss.kind == LossSpec::kSft) {
    totals["train/loss"] += sums.loss;
    if (loss.use_kl_loss) totals["train/kl_loss"] += sums.kl_loss;
    return;
  }
  totals["actor/pg_loss"] += sums.loss;
  totals["actor/entropy"] += sums.entropy / tokens;
  totals["actor/pg_clipfrac"] += sums.clipped / tokens;
  totals["actor/pg_clipfrac_lower"] += sums.clipped_lower / tokens;
  totals["actor/ppo_kl"] += sums.ppo_kl / tokens;
  if (loss.use_kl_loss) totals["actor/kl_loss"] += sums.kl_loss;
}

}  // namespace baton::engine
