#include "workers/engine/scalar_trainer.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/base/status_macros.h"
#include "workers/engine/aggregation.h"
#include "workers/engine/log_probs.h"
#include "workers/engine/sharded_adamw.h"

namespace baton::engine {
namespace {

double Summed(const torch::Tensor& t) { return t.sum(torch::kFloat64).item<double>(); }

absl::Status ValidateOptions(const UpdateOptions& options) {
  if (options.ppo_epochs >= 1 && options.ppo_mini_batch_size >= 0 && options.max_token_len >= 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "ppo_epochs (", options.ppo_epochs, ") must be at least 1, ppo_mini_batch_size (",
      options.ppo_mini_batch_size, ") and max_token_len (", options.max_token_len, ") at least 0"));
}

bool Unmasked(const TrainSequence& s, int64_t r) { return s.loss_mask.empty() || s.loss_mask[r]; }

absl::Status CheckScalars(size_t sequence, const TrainSequence& s, const std::vector<float>& column,
                          absl::string_view name) {
  if (static_cast<int64_t>(column.size()) != s.response_length()) {
    return absl::InvalidArgumentError(absl::StrCat("sequence ", sequence, ": ", name, " has ",
                                                   column.size(), " values for a response of ",
                                                   s.response_length(), " tokens"));
  }
  for (int64_t r = 0; r < s.response_length(); ++r) {
    if (Unmasked(s, r) && !std::isfinite(column[r])) {
      return absl::InvalidArgumentError(absl::StrCat("sequence ", sequence, ", response token ", r,
                                                     ": ", name, " is ", column[r]));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateValueColumns(absl::Span<const TrainSequence> batch, bool clips) {
  for (size_t i = 0; i < batch.size(); ++i) {
    const TrainSequence& s = batch[i];
    if (s.CountUnmasked() == 0) continue;
    BATON_RETURN_IF_ERROR(CheckScalars(i, s, s.returns, "returns"));
    if (clips || !s.values.empty()) BATON_RETURN_IF_ERROR(CheckScalars(i, s, s.values, "values"));
  }
  return absl::OkStatus();
}

/// Unbiased, as torch.var; 0 for fewer than two.
double Variance(const std::vector<double>& x) {
  if (x.size() < 2) return 0;
  double mean = 0, squares = 0;
  for (const double v : x) mean += v / static_cast<double>(x.size());
  for (const double v : x) squares += (v - mean) * (v - mean);
  return squares / static_cast<double>(x.size() - 1);
}

/// Absent when a sequence has no old values.
void AddExplainedVariance(absl::Span<const TrainSequence> batch,
                          std::map<std::string, double>& metrics) {
  std::vector<double> returns, errors;
  for (const TrainSequence& s : batch) {
    if (s.CountUnmasked() == 0) continue;
    if (s.values.empty()) return;
    for (int64_t r = 0; r < s.response_length(); ++r) {
      if (!Unmasked(s, r)) continue;
      returns.push_back(s.returns[r]);
      errors.push_back(double{s.returns[r]} - s.values[r]);
    }
  }
  metrics["critic/vf_explained_var"] = 1 - Variance(errors) / (Variance(returns) + 1e-5);
}

absl::Status NotFiniteScalar(const torch::Tensor& losses,
                             const std::function<std::string(int64_t)>& name_row) {
  const torch::Tensor bad = torch::isfinite(losses).logical_not().nonzero();
  if (bad.numel() == 0) return absl::FailedPreconditionError("the sum of the losses overflows");
  const int64_t row = bad.flatten()[0].item<int64_t>();
  return absl::FailedPreconditionError(
      absl::StrCat(name_row(row), ": the loss is ", losses[row].item<double>()));
}

/// Chosen at 2 i, rejected at 2 i + 1. InvalidArgument names the pair and its side.
absl::StatusOr<std::vector<TrainSequence>> Flatten(absl::Span<const PreferencePair> pairs,
                                                   const ModelConfig& config) {
  std::vector<TrainSequence> flat;
  flat.reserve(2 * pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    for (const TrainSequence* side : {&pairs[i].chosen, &pairs[i].rejected}) {
      const char* name = side == &pairs[i].chosen ? "chosen" : "rejected";
      BATON_RETURN_IF_ERROR(Annotate(ValidateForScores(absl::MakeConstSpan(side, 1), config),
                                     absl::StrCat("pair ", i, ", ", name)));
      flat.push_back(*side);
    }
    if (pairs[i].chosen.tokens == pairs[i].rejected.tokens) {
      return absl::InvalidArgumentError(absl::StrCat(
          "pair ", i, ": chosen and rejected are the same ", pairs[i].chosen.tokens.size(),
          " tokens, so neither can be preferred; remove the pair, or allow longer responses if "
          "they were cut"));
    }
  }
  return flat;
}

/// Rows that both sides take, padding included.
std::vector<int64_t> PairLengths(absl::Span<const TrainSequence> flat) {
  std::vector<int64_t> lengths;
  for (size_t i = 0; i < flat.size(); i += 2) {
    lengths.push_back(
        2 * static_cast<int64_t>(std::max(flat[i].tokens.size(), flat[i + 1].tokens.size())));
  }
  return lengths;
}

/// Scores of both sides of each pair.
struct PairScores {
  torch::Tensor chosen, rejected;  ///< [P] each.
};
PackedRows PackPairs(absl::Span<const TrainSequence> flat, const std::vector<int64_t>& pairs) {
  std::vector<int64_t> sides;
  for (const int64_t pair : pairs) sides.insert(sides.end(), {2 * pair, 2 * pair + 1});
  return PackLastRows(flat, sides);
}
PairScores SplitPairs(const torch::Tensor& scalars) {
  const torch::Tensor scores = scalars.view({-1, 2});
  return {scores.select(1, 0), scores.select(1, 1)};
}

double CountWins(const torch::Tensor& margins) {
  return Summed(margins > 0) + 0.5 * Summed(margins == 0);
}

double CountTokens(absl::Span<const TrainSequence> batch) {
  double tokens = 0;
  for (const TrainSequence& s : batch) tokens += static_cast<double>(s.tokens.size());
  return tokens;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ScalarTrainer>> ScalarTrainer::Create(ScalarModel* model,
                                                                     const OptimizerSpec& optimizer,
                                                                     Communicator* data_group) {
  try {
    BATON_ASSIGN_OR_RETURN(auto adamw, MakeOptimizer(model->config(), model->parts(), optimizer,
                                                     {model->tensor_group(), data_group}));
    return std::unique_ptr<ScalarTrainer>(new ScalarTrainer(model, std::move(adamw), data_group));
  } catch (const std::exception& e) {
    return FromException(e);
  }
}

absl::StatusOr<std::vector<ScalarTrainer::MiniBatch>> ScalarTrainer::PlanValues(
    absl::Span<const TrainSequence> batch, const ValueLossSpec& loss,
    const UpdateOptions& options) const {
  BATON_RETURN_IF_ERROR(ValidateOptions(options));
  BATON_RETURN_IF_ERROR(Validate(loss));
  BATON_RETURN_IF_ERROR(ValidateSequences(batch, model_->config()));
  BATON_RETURN_IF_ERROR(ValidateValueColumns(batch, loss.cliprange_value > 0));
  BATON_ASSIGN_OR_RETURN(const LossAggregation aggregation,
                         ParseLossAggregation(loss.loss_agg_mode));
  const size_t size = options.ppo_mini_batch_size > 0 ? options.ppo_mini_batch_size
                                                      : std::max(batch.size(), size_t{1});
  std::vector<MiniBatch> plan;
  for (size_t begin = 0; begin < batch.size(); begin += size) {
    MiniBatch mini_batch;
    const auto sequences = batch.subspan(begin, size);
    mini_batch.begin = static_cast<int64_t>(begin);
    mini_batch.size = static_cast<int64_t>(sequences.size());
    std::vector<int64_t> counts, lengths;
    double scale = loss.loss_scale_factor;
    for (const TrainSequence& s : sequences) {
      counts.push_back(s.CountUnmasked());
      lengths.push_back(counts.back() > 0 ? InputLength(s) : 0);
      mini_batch.terms += static_cast<double>(counts.back());
      if (loss.loss_scale_factor == 0) scale = std::max<double>(scale, s.response_length());
    }
    mini_batch.weights = TokenWeights(aggregation, counts, scale);
    BATON_RETURN_IF_ERROR(PlanMicro(lengths, options, mini_batch));
    if (mini_batch.terms > 0) plan.push_back(std::move(mini_batch));
  }
  if (plan.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch of ", batch.size(), " sequences has no unmasked response token"));
  }
  return plan;
}

absl::StatusOr<ScalarTrainer::Metrics> ScalarTrainer::UpdateValues(
    absl::Span<const TrainSequence> batch, const ValueLossSpec& loss,
    const UpdateOptions& options) {
  BATON_RETURN_IF_ERROR(CheckSame(batch, options));
  BATON_ASSIGN_OR_RETURN(const std::vector<MiniBatch> plan, PlanValues(batch, loss, options));
  const auto tensor = torch::TensorOptions().dtype(model_->dtype()).device(model_->device());
  const auto accumulate = [&](const MiniBatch& mini_batch, const std::vector<int64_t>& indices,
                              bool last, Sums& sums) -> absl::Status {
    const auto sequences = batch.subspan(mini_batch.begin, mini_batch.size);
    const PackedRows packed = PackRows(sequences, indices, ResponseRows::kUnmasked);
    const auto column = [&](auto value_of) {
      std::vector<double> values;
      for (size_t m = 0; m < packed.sequence_index.size(); ++m) {
        values.push_back(value_of(packed.sequence_index[m], packed.response_index[m]));
      }
      return torch::tensor(at::ArrayRef<double>(values), torch::kFloat64).to(tensor);
    };
    const torch::Tensor weights = column([&](int64_t i, int64_t) { return mini_batch.weights[i]; });
    const torch::Tensor returns =
        column([&](int64_t i, int64_t r) { return sequences[i].returns[r]; });
    torch::Tensor old_values;
    if (loss.cliprange_value > 0) {
      old_values = column([&](int64_t i, int64_t r) { return sequences[i].values[r]; });
    }
    const auto loss_of = [&](const torch::Tensor& values) -> absl::StatusOr<torch::Tensor> {
      const ValueTerms terms = ValueLoss(values, old_values, returns, loss.cliprange_value);
      const torch::Tensor total = (terms.loss * weights).sum();
      const double loss_value = total.item<double>();
      if (!std::isfinite(loss_value)) {
        return NotFiniteScalar(terms.loss.detach(), [&](int64_t row) {
          return absl::StrCat("sequence ", mini_batch.begin + packed.sequence_index[row],
                              ", response token ", packed.response_index[row]);
        });
      }
      sums[0] += Summed((terms.loss * weights).detach());
      sums[1] += Summed(terms.clipped) / mini_batch.terms;
      sums[2] += Summed(values.detach()) / mini_batch.terms;
      return total;
    };
    return Backward(packed, last, loss_of);
  };
  BATON_ASSIGN_OR_RETURN(
      Metrics metrics,
      Run(plan, options, "critic/", {"critic/vf_loss", "critic/vf_clipfrac", "critic/vpred_mean"},
          accumulate));
  AddExplainedVariance(batch, metrics);
  metrics["perf/total_num_tokens"] = CountTokens(batch);
  return metrics;
}

absl::StatusOr<ScalarTrainer::Metrics> ScalarTrainer::UpdatePreferences(
    absl::Span<const PreferencePair> pairs, const UpdateOptions& options) {
  BATON_RETURN_IF_ERROR(ValidateOptions(options));
  if (pairs.empty()) return absl::InvalidArgumentError("the batch has no preference pairs");
  BATON_ASSIGN_OR_RETURN(const std::vector<TrainSequence> flat, Flatten(pairs, model_->config()));
  BATON_RETURN_IF_ERROR(CheckSame(flat, options));
  const std::vector<int64_t> lengths = PairLengths(flat);
  const size_t size = options.ppo_mini_batch_size > 0 ? options.ppo_mini_batch_size : pairs.size();
  std::vector<MiniBatch> plan;
  for (size_t begin = 0; begin < pairs.size(); begin += size) {
    MiniBatch mini_batch;
    const auto part = absl::MakeConstSpan(lengths).subspan(begin, size);
    mini_batch.begin = static_cast<int64_t>(begin);
    mini_batch.size = static_cast<int64_t>(part.size());
    mini_batch.terms = static_cast<double>(part.size());
    BATON_RETURN_IF_ERROR(PlanMicro({part.begin(), part.end()}, options, mini_batch));
    plan.push_back(std::move(mini_batch));
  }
  const auto accumulate = [&](const MiniBatch& mini_batch, const std::vector<int64_t>& indices,
                              bool last, Sums& sums) -> absl::Status {
    const auto sides = absl::MakeConstSpan(flat).subspan(2 * mini_batch.begin, 2 * mini_batch.size);
    const auto loss_of = [&](const torch::Tensor& scalars) -> absl::StatusOr<torch::Tensor> {
      const PairScores scores = SplitPairs(scalars);
      const torch::Tensor losses = PreferenceLoss(scores.chosen, scores.rejected);
      const torch::Tensor total = losses.sum() / mini_batch.terms;
      const double loss_value = total.item<double>();
      if (!std::isfinite(loss_value)) {
        return NotFiniteScalar(losses.detach(), [&](int64_t row) {
          return absl::StrCat("pair ", mini_batch.begin + indices[row]);
        });
      }
      const torch::Tensor margins = (scores.chosen - scores.rejected).detach();
      sums[0] += Summed(losses.detach()) / mini_batch.terms;
      sums[1] += CountWins(margins) / mini_batch.terms;
      sums[2] += Summed(margins) / mini_batch.terms;
      return total;
    };
    return Backward(PackPairs(sides, indices), last, loss_of);
  };
  BATON_ASSIGN_OR_RETURN(
      Metrics metrics,
      Run(plan, options, "train/", {"train/loss", "train/accuracy", "train/margin"}, accumulate));
  metrics["perf/total_num_tokens"] = CountTokens(flat);
  return metrics;
}

absl::StatusOr<ScalarTrainer::Metrics> ScalarTrainer::Run(const std::vector<MiniBatch>& plan,
                                                          const UpdateOptions& options,
                                                          const std::string& prefix,
                                                          const Names& names,
                                                          Accumulate accumulate) {
  if (half_done_) {
    return absl::FailedPreconditionError(
        "an earlier update failed half way; load the last checkpoint into a new trainer");
  }
  skip_reasons_.clear();
  Metrics metrics;
  double steps = 0;
  const auto parts = static_cast<int64_t>(plan.size()) * options.ppo_epochs;
  int64_t part = 0;
  absl::Status first_failure;
  for (int64_t epoch = 0; epoch < options.ppo_epochs; ++epoch) {
    for (const MiniBatch& mini_batch : plan) {
      const double lr = optimizer_->schedule().At(options.step, part++, parts);
      const absl::Status status =
          Step(mini_batch, options, lr, names, accumulate, metrics[prefix + "grad_norm"], metrics);
      if (status.ok()) {
        ++steps;
        continue;
      }
      if (!absl::IsFailedPrecondition(status)) {
        return Annotate(status, half_done_ ? absl::StrCat("after ", steps, " optimizer steps of it")
                                           : "update not begun, weights unchanged");
      }
      first_failure.Update(status);
      skip_reasons_.push_back(absl::StrCat("epoch ", epoch, ", mini-batch from ", mini_batch.begin,
                                           ": ", status.message()));
    }
  }
  if (steps == 0) {
    return absl::Status(first_failure.code(), absl::StrCat("update refused, weights unchanged: ",
                                                           absl::StrJoin(skip_reasons_, "; ")));
  }
  half_done_ = false;
  for (auto& metric : metrics) metric.second /= steps;
  metrics[prefix + "lr"] = last_learning_rate_;
  metrics[prefix + "optimizer_steps"] = steps;
  metrics[prefix + "skipped_steps"] = static_cast<double>(skip_reasons_.size());
  return metrics;
}

absl::Status ScalarTrainer::CheckSame(absl::Span<const TrainSequence> batch,
                                      const UpdateOptions& options) {
  if (ranks_.alone()) return absl::OkStatus();
  try {
    BATON_RETURN_IF_ERROR(ranks_.CheckSame(DigestOf(batch), "batches"));
    uint64_t digest = static_cast<uint64_t>(optimizer_->step());
    for (const int64_t option :
         {options.step, options.ppo_epochs, options.ppo_mini_batch_size, options.max_token_len}) {
      digest = digest * 1000003 + static_cast<uint64_t>(option);
    }
    return ranks_.CheckSame(digest, "options, or stand at different steps");
  } catch (const std::exception& e) {
    return FromException(e);
  }
}

absl::Status ScalarTrainer::PlanMicro(const std::vector<int64_t>& lengths,
                                      const UpdateOptions& options, MiniBatch& mini_batch) const {
  const int64_t budget = TokenBudget(options.max_token_len, lengths);
  BATON_ASSIGN_OR_RETURN(mini_batch.micro_batches, PlanMicroBatches(lengths, budget));
  if (ranks_.alone()) return absl::OkStatus();
  const SequenceCost cost = CostOf(model_->config());
  const BatchShare share = ranks_.ShareOf(lengths, cost);
  mini_batch.imbalance = share.imbalance;
  BATON_ASSIGN_OR_RETURN(mini_batch.micro_batches,
                         PlanBalancedMicroBatches(share.lengths, cost, budget));
  return absl::OkStatus();
}

absl::Status ScalarTrainer::Step(const MiniBatch& mini_batch, const UpdateOptions& options,
                                 double lr, const Names& names, Accumulate accumulate,
                                 double& grad_norm, Metrics& totals) {
  try {
    if (ranks_.Any(options.cancelled && options.cancelled())) {
      return absl::CancelledError("update was cancelled");
    }
    optimizer_->ZeroGradients();
    Sums sums = {};
    absl::Status status;
    for (size_t i = 0; status.ok() && i < mini_batch.micro_batches.size(); ++i) {
      const bool last = i + 1 == mini_batch.micro_batches.size();
      status = accumulate(mini_batch, mini_batch.micro_batches[i], last, sums);
    }
    // Also a rank that failed takes part: the others must not wait for it.
    optimizer_->ReduceGradients();
    BATON_RETURN_IF_ERROR(ranks_.SumUnlessFailed(status, absl::MakeSpan(sums)));
    BATON_ASSIGN_OR_RETURN(const double norm, optimizer_->GradientNorm());
    last_learning_rate_ = lr;
    half_done_ = true;
    optimizer_->Step(norm, lr);
    for (size_t i = 0; i < names.size(); ++i) totals[names[i]] += sums[i];
    grad_norm += norm;
    if (ranks_.data_ranks() > 1) totals["perf/imbalance"] += mini_batch.imbalance;
    return absl::OkStatus();
  } catch (const std::exception& e) {
    return FromException(e);
  }
}

absl::Status ScalarTrainer::Backward(const PackedRows& packed, bool last, LossOf loss_of) {
  const torch::Tensor states = model_->States(packed);
  // The head first, so that the gradients of the body are the last ones to come (optimizer.h).
  torch::Tensor head_input = states.detach().requires_grad_(true);
  BATON_ASSIGN_OR_RETURN(const torch::Tensor total, loss_of(model_->Scalars(head_input)));
  total.backward();
  if (last) optimizer_->ExpectLastBackward();
  states.backward(head_input.grad());
  return absl::OkStatus();
}

absl::Status ScalarTrainer::SaveOptimizer(const std::string& path) const {
  return optimizer_->Save(path);
}

absl::Status ScalarTrainer::LoadOptimizer(const std::string& path) {
  return optimizer_->Load(path);
}

absl::StatusOr<PreferenceReport> EvaluatePreferences(ScalarModel& model,
                                                     absl::Span<const PreferencePair> pairs,
                                                     int64_t max_token_len) {
  if (pairs.empty()) return absl::InvalidArgumentError("there are no preference pairs to judge");
  BATON_ASSIGN_OR_RETURN(const std::vector<TrainSequence> flat, Flatten(pairs, model.config()));
  const std::vector<int64_t> lengths = PairLengths(flat);
  BATON_ASSIGN_OR_RETURN(const auto plan,
                         PlanMicroBatches(lengths, TokenBudget(max_token_len, lengths)));
  PreferenceReport report;
  const double count = static_cast<double>(pairs.size());
  try {
    torch::NoGradGuard no_grad;
    for (const auto& indices : plan) {
      const PairScores scores = SplitPairs(model.Forward(PackPairs(flat, indices)));
      const torch::Tensor margins = scores.chosen - scores.rejected;
      report.loss += Summed(PreferenceLoss(scores.chosen, scores.rejected)) / count;
      report.accuracy += CountWins(margins) / count;
      report.margin += Summed(margins) / count;
    }
  } catch (const std::exception& e) {
    return FromException(e);
  }
  return report;
}

}  // namespace baton::engine
