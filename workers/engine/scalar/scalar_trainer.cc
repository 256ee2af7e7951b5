#include "workers/engine/scalar/scalar_trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "workers/engine/loss/aggregation.h"
#include "workers/engine/loss/log_probs.h"
#include "workers/engine/model/exceptions.h"
#include "workers/engine/training/sharded_adamw.h"

namespace baton::engine {
namespace {

double Summed(const torch::Tensor& t) { return t.sum(torch::kFloat64).item<double>(); }

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
    if (s.CountUnmasked() == 0 || s.remote()) continue;
    BATON_RETURN_IF_ERROR(CheckScalars(i, s, s.returns, "returns"));
    if (clips || !s.values.empty()) BATON_RETURN_IF_ERROR(CheckScalars(i, s, s.values, "values"));
  }
  return absl::OkStatus();
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
    absl::Span<const TrainSequence> batch, const LossSpec& loss,
    const UpdateOptions& options) const {
  BATON_RETURN_IF_ERROR(ValidateOptions(options));
  BATON_RETURN_IF_ERROR(Validate(loss));
  BATON_RETURN_IF_ERROR(ValidateSequences(batch, model_->config()));
  BATON_RETURN_IF_ERROR(ValidateValueColumns(batch, loss.cliprange_value > 0));
  BATON_ASSIGN_OR_RETURN(const LossAggregation aggregation,
                         ParseLossAggregation(loss.loss_agg_mode));
  const size_t size = options.ppo_mini_batch_size > 0 ? options.ppo_mini_batch_size
                                                      : std::max(batch.size(), size_t{1});
  const SequenceCost cost = CostOf(model_->config());
  std::vector<MiniBatch> plan;
  for (size_t begin = 0; begin < batch.size(); begin += size) {
    MiniBatch mini_batch;
    const auto sequences = batch.subspan(begin, size);
    mini_batch.name = absl::StrCat("mini-batch from ", begin);
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
    BATON_RETURN_IF_ERROR(loop_.PlanMicro(lengths, cost, options, mini_batch));
    if (mini_batch.terms > 0) plan.push_back(std::move(mini_batch));
  }
  if (plan.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch of ", batch.size(), " sequences has no unmasked response token"));
  }
  return plan;
}

absl::StatusOr<std::vector<int64_t>> ScalarTrainer::Share(absl::Span<const TrainSequence> batch,
                                                          const LossSpec& loss,
                                                          const UpdateOptions& options) const {
  BATON_ASSIGN_OR_RETURN(const std::vector<MiniBatch> plan, PlanValues(batch, loss, options));
  return SequencesOf<MiniBatch>(plan);
}

// Each rank adds up its own share: first for the means, then for the squares around them.
absl::Status ScalarTrainer::AddExplainedVariance(absl::Span<const TrainSequence> batch,
                                                 absl::Span<const int64_t> share,
                                                 Metrics& metrics) {
  const auto add = [&](double mean_return, double mean_error, int power) {
    std::array<double, 4> sums = {};  // returns, errors, tokens, sequences without old values
    for (const int64_t index : share) {
      const TrainSequence& s = batch[index];
      if (s.values.empty()) {
        ++sums[3];
        continue;
      }
      for (int64_t r = 0; r < s.response_length(); ++r) {
        if (!Unmasked(s, r)) continue;
        sums[0] += std::pow(s.returns[r] - mean_return, power);
        sums[1] += std::pow(double{s.returns[r]} - s.values[r] - mean_error, power);
        ++sums[2];
      }
    }
    return sums;
  };
  try {
    auto sums = add(0, 0, 1);
    BATON_RETURN_IF_ERROR(loop_.ranks().SumUnlessFailed(absl::OkStatus(), absl::MakeSpan(sums)));
    if (sums[3] > 0) return absl::OkStatus();
    const double tokens = sums[2];
    sums = add(sums[0] / tokens, sums[1] / tokens, 2);
    BATON_RETURN_IF_ERROR(loop_.ranks().SumUnlessFailed(absl::OkStatus(), absl::MakeSpan(sums)));
    // Unbiased, as torch.var; 0 for one token.
    const double degrees = std::max(1.0, tokens - 1);
    metrics["critic/vf_explained_var"] = 1 - sums[1] / degrees / (sums[0] / degrees + 1e-5);
    return absl::OkStatus();
  } catch (const std::exception& e) {
    return FromException(e);
  }
}

absl::StatusOr<ScalarTrainer::Metrics> ScalarTrainer::UpdateValues(
    absl::Span<const TrainSequence> batch, const LossSpec& loss, const UpdateOptions& options) {
  const absl::StatusOr<std::vector<MiniBatch>> planned = PlanValues(batch, loss, options);
  const absl::StatusOr<std::vector<int64_t>> share = ShareOf(planned);
  BATON_RETURN_IF_ERROR(loop_.Begin(batch, share, options));
  const std::vector<MiniBatch>& plan = *planned;
  Metrics explained;  // before the steps: an update that is applied has nothing left to fail
  BATON_RETURN_IF_ERROR(AddExplainedVariance(batch, *share, explained));
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
  metrics.merge(explained);
  metrics["perf/total_num_tokens"] = CountTokens(batch);
  return metrics;
}

absl::StatusOr<ScalarTrainer::Metrics> ScalarTrainer::UpdatePreferences(
    absl::Span<const PreferencePair> pairs, const UpdateOptions& options) {
  BATON_RETURN_IF_ERROR(ValidateOptions(options));
  if (pairs.empty()) return absl::InvalidArgumentError("the batch has no preference pairs");
  BATON_ASSIGN_OR_RETURN(const std::vector<TrainSequence> flat, Flatten(pairs, model_->config()));
  BATON_RETURN_IF_ERROR(loop_.BeginWhole(flat, options));
  const std::vector<int64_t> lengths = PairLengths(flat);
  const size_t size = options.ppo_mini_batch_size > 0 ? options.ppo_mini_batch_size : pairs.size();
  const SequenceCost cost = CostOf(model_->config());
  std::vector<MiniBatch> plan;
  for (size_t begin = 0; begin < pairs.size(); begin += size) {
    MiniBatch mini_batch;
    const auto part = absl::MakeConstSpan(lengths).subspan(begin, size);
    mini_batch.name = absl::StrCat("mini-batch from ", begin);
    mini_batch.begin = static_cast<int64_t>(begin);
    mini_batch.size = static_cast<int64_t>(part.size());
    mini_batch.terms = static_cast<double>(part.size());
    BATON_RETURN_IF_ERROR(loop_.PlanMicro({part.begin(), part.end()}, cost, options, mini_batch));
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
  Sums sums = {};
  const auto clear = [&] {
    sums = {};
    return absl::MakeSpan(sums);
  };
  const auto accumulate_in = [&](size_t i, const std::vector<int64_t>& indices, bool last) {
    return accumulate(plan[i], indices, last, sums);
  };
  const auto add = [&](Metrics& totals) {
    for (size_t i = 0; i < names.size(); ++i) totals[names[i]] += sums[i];
  };
  return loop_.Run(PlanOf(plan), options, prefix, {clear, accumulate_in, add});
}

absl::Status ScalarTrainer::Backward(const PackedRows& packed, bool last, LossOf loss_of) {
  const torch::Tensor states = model_->States(packed);
  // The head first, so that the gradients of the body are the last ones to come (optimizer.h).
  torch::Tensor head_input = states.detach().requires_grad_(true);
  BATON_ASSIGN_OR_RETURN(const torch::Tensor total, loss_of(model_->Scalars(head_input)));
  total.backward();
  if (last) loop_.optimizer().ExpectLastBackward();
  states.backward(head_input.grad());
  return absl::OkStatus();
}

absl::Status ScalarTrainer::SaveOptimizer(const std::string& path) const {
  return loop_.optimizer().Save(path);
}

absl::Status ScalarTrainer::LoadOptimizer(const std::string& path) {
  return loop_.optimizer().Load(path);
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
