#include "workers/engine/training/trainer_loss.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/loss/aggregation.h"

namespace baton::engine {
namespace {

double SumOf(const torch::Tensor& t) { return t.sum(torch::kFloat64).item<double>(); }

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

bool IsPolicyLoss(const LossSpec& loss) { return loss.kind != LossSpec::kSft; }

/// Takes part in the pretraining term alone.
bool IsText(const TrainSequence& s, const LossSpec& loss) {
  return s.pretraining && IsPolicyLoss(loss);
}

/// The denominator of the ratio: recomputed, or as sampled.
const std::vector<float>& OldLogProbs(const TrainSequence& s) {
  return s.old_log_probs.empty() ? s.behaviour_log_probs : s.old_log_probs;
}

absl::Status CheckPolicyColumns(size_t i, const TrainSequence& s, const LossSpec& loss) {
  const bool corrects = !RolloutCorrections(loss).empty();
  if (!s.old_log_probs.empty() || corrects) {
    BATON_RETURN_IF_ERROR(CheckColumn(i, s, s.old_log_probs, "old_log_probs", false));
  }
  const bool needs_behaviour =
      corrects || (loss.kind != LossSpec::kReinforce && s.old_log_probs.empty());
  if (needs_behaviour || !s.behaviour_log_probs.empty()) {
    BATON_RETURN_IF_ERROR(CheckColumn(i, s, s.behaviour_log_probs, "behaviour_log_probs", false));
  }
  return CheckColumn(i, s, s.advantages, "advantages", true);
}

PolicyTerms TermsOf(const torch::Tensor& log_probs, const LossColumns& columns,
                    const LossSpec& loss) {
  switch (loss.kind) {
    case LossSpec::kGspo: {
      torch::Tensor ratios = columns.sequence_log_ratios;
      if (!ratios.defined()) {
        ratios = SequenceMeans(log_probs.detach() - columns.old_log_probs, columns.sequences);
      }
      return Gspo(log_probs, columns.old_log_probs, ratios, columns.advantages, loss);
    }
    case LossSpec::kCispo:
      return Cispo(log_probs, columns.old_log_probs, columns.advantages, loss);
    case LossSpec::kReinforce:
      return Reinforce(log_probs, columns.old_log_probs, columns.advantages);
    case LossSpec::kPpoClip:
      return PpoClip(log_probs, columns.old_log_probs, columns.advantages, loss);
    case LossSpec::kValue:  // a critic's: scalar_trainer.h
    case LossSpec::kSft:
      break;
  }
  return {log_probs.neg(), {}, {}, {}};
}

/// Everything of `sums` that is counted per row of the policy.
void CountRows(const TokenScores& scores, const PolicyTerms& terms, const LossColumns& columns,
               const LossSpec& loss, LossSums& sums) {
  const auto sum = [&](const torch::Tensor& t) {
    return SumOf(columns.policy_rows.defined() ? t * columns.policy_rows : t);
  };
  sums.tokens += columns.policy_rows.defined() ? SumOf(columns.policy_rows)
                                               : static_cast<double>(scores.log_probs.numel());
  if (scores.entropy.defined()) sums.entropy += sum(scores.entropy);
  if (!IsPolicyLoss(loss)) return;
  sums.clipped += sum(terms.clipped);
  sums.clipped_lower += sum(terms.clipped_lower);
  sums.ppo_kl += sum(terms.kl);
}

}  // namespace

LossColumns LossColumns::Narrow(int64_t begin, int64_t length) const {
  const auto narrow = [&](const torch::Tensor& t) {
    return t.defined() ? t.narrow(0, begin, length) : t;
  };
  return {narrow(weights),       narrow(old_log_probs), narrow(advantages),
          narrow(ref_log_probs), narrow(nll_weights),   narrow(policy_rows),
          narrow(is_weights),    narrow(sequences),     narrow(sequence_log_ratios)};
}

bool LeavesNothing(absl::Span<const TrainSequence> mini_batch, absl::Span<const int64_t> counts,
                   const LossSpec& loss) {
  bool has_policy = false, has_text = false;
  for (size_t i = 0; i < mini_batch.size(); ++i) {
    const bool text = IsText(mini_batch[i], loss);
    has_policy |= !text;
    if (counts[i] == 0) continue;
    if (!text) return false;
    has_text = true;
  }
  return has_policy || !has_text;
}

absl::StatusOr<SequenceWeights> WeighSequences(absl::Span<const TrainSequence> mini_batch,
                                               const LossSpec& loss,
                                               absl::Span<const int64_t> kept) {
  BATON_ASSIGN_OR_RETURN(const LossAggregation aggregation,
                         ParseLossAggregation(loss.loss_agg_mode));
  std::vector<int64_t> counts;
  double scale = loss.loss_scale_factor, positive = 0, pretraining = 0;
  for (size_t i = 0; i < mini_batch.size(); ++i) {
    const TrainSequence& s = mini_batch[i];
    const int64_t count = kept.empty() ? s.CountUnmasked() : kept[i];
    counts.push_back(IsText(s, loss) ? 0 : count);
    if (IsText(s, loss)) pretraining += static_cast<double>(count);
    if (!IsText(s, loss) && s.positive) positive += static_cast<double>(count);
    if (loss.loss_scale_factor == 0 && !IsText(s, loss)) {
      scale = std::max<double>(scale, s.response_length());
    }
  }
  SequenceWeights weights;
  weights.loss = TokenWeights(aggregation, counts, scale);
  if (loss.positive_nll_coef == 0 && loss.ptx_coef == 0) return weights;
  for (const TrainSequence& s : mini_batch) {
    const double tokens = IsText(s, loss) ? pretraining : s.positive ? positive : 0;
    const double coef = IsText(s, loss) ? loss.ptx_coef : loss.positive_nll_coef;
    weights.nll.push_back(tokens > 0 ? coef / tokens : 0);
  }
  return weights;
}

LossColumns MakeLossColumns(absl::Span<const TrainSequence> batch, const SequenceWeights& weights,
                            absl::Span<const SequenceCorrection> corrections,
                            const PackedRows& packed, const LossSpec& loss,
                            const torch::TensorOptions& options) {
  const size_t rows = packed.sequence_index.size();
  std::vector<double> values(rows);
  const auto column = [&](auto value_of) {
    for (size_t m = 0; m < rows; ++m) {
      values[m] = value_of(packed.sequence_index[m], packed.response_index[m]);
    }
    return torch::tensor(at::ArrayRef<double>(values), torch::kFloat64).to(options);
  };
  // Pretraining text has none of the policy's columns.
  const auto policy_column = [&](auto value_of) {
    return column(
        [&](int64_t i, int64_t r) { return IsText(batch[i], loss) ? 0 : value_of(i, r); });
  };
  LossColumns columns;
  columns.weights = column([&](int64_t i, int64_t) { return weights.loss[i]; });
  if (!weights.nll.empty()) {
    columns.nll_weights = column([&](int64_t i, int64_t) { return weights.nll[i]; });
  }
  if (loss.ptx_coef > 0) {
    columns.policy_rows =
        column([&](int64_t i, int64_t) { return IsText(batch[i], loss) ? 0 : 1; });
  }
  if (IsPolicyLoss(loss)) {
    const auto has_old = [&](int64_t i) {
      return IsText(batch[i], loss) || !OldLogProbs(batch[i]).empty();
    };
    if (std::all_of(packed.sequence_index.begin(), packed.sequence_index.end(), has_old)) {
      columns.old_log_probs =
          policy_column([&](int64_t i, int64_t r) { return OldLogProbs(batch[i])[r]; });
    }
    columns.advantages =
        policy_column([&](int64_t i, int64_t r) { return At(batch[i].advantages, r); });
  }
  if (!loss.rollout_is.empty()) {
    columns.is_weights =
        policy_column([&](int64_t i, int64_t r) { return corrections[i].weights[r]; });
  }
  if (loss.kind == LossSpec::kGspo) {
    columns.sequences = torch::tensor(at::ArrayRef<int64_t>(packed.sequence_index), torch::kInt64)
                            .to(options.device());
  }
  if (loss.use_kl_loss) {
    columns.ref_log_probs =
        policy_column([&](int64_t i, int64_t r) { return batch[i].ref_log_probs[r]; });
  }
  return columns;
}

void AddSequenceLogRatios(absl::FunctionRef<torch::Tensor(int64_t, int64_t)> logits,
                          const torch::Tensor& targets, int64_t piece, const LossSpec& loss,
                          LossColumns& columns, const Scoring& scoring) {
  const int64_t rows = targets.size(0);
  if (loss.kind != LossSpec::kGspo || rows <= piece) return;
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> log_probs;
  for (int64_t begin = 0; begin < rows; begin += piece) {
    const int64_t length = std::min(piece, rows - begin);
    log_probs.push_back(ScoreTokens(logits(begin, length), targets.narrow(0, begin, length),
                                    loss.temperature, EntropyMode::kNone, scoring)
                            .log_probs);
  }
  columns.sequence_log_ratios =
      SequenceMeans(torch::cat(log_probs) - columns.old_log_probs, columns.sequences);
}

absl::Status ValidateLossColumns(absl::Span<const TrainSequence> batch, const LossSpec& loss) {
  for (size_t i = 0; i < batch.size(); ++i) {
    const TrainSequence& s = batch[i];
    if (s.CountUnmasked() == 0) continue;
    if (IsText(s, loss)) {
      if (loss.ptx_coef > 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "sequence ", i, " is pretraining text; a policy loss takes it with ptx_coef above 0"));
    }
    if (s.remote()) continue;
    if (IsPolicyLoss(loss)) BATON_RETURN_IF_ERROR(CheckPolicyColumns(i, s, loss));
    if (loss.use_kl_loss) {
      BATON_RETURN_IF_ERROR(CheckColumn(i, s, s.ref_log_probs, "ref_log_probs", false));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<torch::Tensor> WeightedLoss(const torch::Tensor& logits,
                                           const torch::Tensor& targets, const LossColumns& columns,
                                           const LossSpec& loss,
                                           absl::FunctionRef<std::string(int64_t)> name_row,
                                           LossSums& sums, const Scoring& scoring) {
  const EntropyMode entropy_mode = loss.entropy_coeff != 0 ? EntropyMode::kGradient
                                   : IsPolicyLoss(loss)    ? EntropyMode::kValue
                                                           : EntropyMode::kNone;
  const TokenScores scores = ScoreTokens(logits, targets, loss.temperature, entropy_mode, scoring);
  const PolicyTerms terms = TermsOf(scores.log_probs, columns, loss);
  const torch::Tensor policy_loss =
      columns.is_weights.defined() ? terms.loss * columns.is_weights : terms.loss;
  torch::Tensor token_loss = policy_loss;
  if (loss.entropy_coeff != 0) token_loss = token_loss - loss.entropy_coeff * scores.entropy;
  torch::Tensor kl;
  if (loss.use_kl_loss) {
    kl = KlPenalty(scores.log_probs, columns.ref_log_probs, loss.kl_loss_type);
    token_loss = token_loss + loss.kl_loss_coef * kl;
  }
  torch::Tensor total = (token_loss * columns.weights).sum();
  torch::Tensor nll;
  if (columns.nll_weights.defined()) {
    nll = scores.log_probs.neg() * columns.nll_weights;
    total = total + nll.sum();
  }

  torch::NoGradGuard no_grad;
  const double value = total.item<double>();
  if (!std::isfinite(value)) {
    return NotFinite(nll.defined() ? token_loss + nll : token_loss, scores.log_probs, name_row);
  }
  sums.loss += SumOf(policy_loss * columns.weights);
  if (kl.defined()) sums.kl_loss += SumOf(kl * columns.weights);
  if (nll.defined()) {
    const double all = SumOf(nll);
    const double positive = columns.policy_rows.defined() ? SumOf(nll * columns.policy_rows) : all;
    sums.positive_nll += positive;
    sums.ptx += all - positive;
  }
  CountRows(scores, terms, columns, loss, sums);
  return total;
}

void AddMetrics(const LossSums& sums, const LossSpec& loss, std::map<std::string, double>& totals) {
  const double tokens = std::max(1.0, sums.tokens);  // a mini-batch of pretraining text has none
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
  if (loss.positive_nll_coef > 0) {
    totals["actor/positive_nll_loss"] += sums.positive_nll / loss.positive_nll_coef;
  }
  if (loss.ptx_coef > 0) totals["actor/ptx_loss"] += sums.ptx / loss.ptx_coef;
}

}  // namespace baton::engine
