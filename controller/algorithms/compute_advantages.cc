#include "controller/algorithms/compute_advantages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/algorithms/estimators.h"
#include "controller/algorithms/rollout_mismatch.h"

namespace baton::algorithms {
namespace {

// ---- Checks -----------------------------------------------------------------------------------

using Column = absl::Span<const float> Sample::*;

struct NamedColumn {
  const char* name;
  Column column;
};

/// `recomputed`: some sample has log-probs of the rollout beside its log-probs.
std::vector<NamedColumn> ColumnsIn(const EstimatorSpec& spec, Estimator cost_estimator,
                                   bool recomputed) {
  std::vector<NamedColumn> columns;
  if (spec.use_kl_in_reward || recomputed) columns.push_back({"log_probs", &Sample::log_probs});
  if (spec.use_kl_in_reward) columns.push_back({"ref_log_probs", &Sample::ref_log_probs});
  if (recomputed) columns.push_back({"rollout_log_probs", &Sample::rollout_log_probs});
  if (spec.estimator == Estimator::kGae) columns.push_back({"values", &Sample::values});
  if (spec.estimator == Estimator::kGiven) {
    columns.push_back({"advantage", &Sample::token_advantages});
  }
  if (spec.use_cost && cost_estimator == Estimator::kGae) {
    columns.push_back({"cost_values", &Sample::cost_values});
  }
  return columns;
}

absl::Status Fault(absl::Span<const Sample> samples, size_t i, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("sample ", i, " (group ", samples[i].group, "): ", what));
}

absl::Status CheckLengths(absl::Span<const Sample> samples, size_t i,
                          absl::Span<const NamedColumn> needed) {
  const Sample& s = samples[i];
  if (!s.mask.empty() && s.mask.size() != s.length) {
    return Fault(samples, i,
                 absl::StrCat("mask has ", s.mask.size(), " values for ", s.length, " tokens"));
  }
  if (!s.token_rewards.empty() && s.token_rewards.size() != s.length) {
    return Fault(samples, i,
                 absl::StrCat("token_rewards has ", s.token_rewards.size(), " values for ",
                              s.length, " tokens"));
  }
  for (const NamedColumn& c : needed) {
    const size_t size = (s.*c.column).size();
    if (size == s.length) continue;
    if (c.column == &Sample::token_advantages && size == 0) continue;  // one for all: CheckScalars
    return Fault(samples, i,
                 absl::StrCat(c.name, size == 0 ? " is missing: it has " : " has ", size,
                              " values for ", s.length, " tokens"));
  }
  return absl::OkStatus();
}

absl::Status CheckScalars(absl::Span<const Sample> samples, size_t i, const EstimatorSpec& spec) {
  const Sample& s = samples[i];
  if (!std::isfinite(s.reward)) return Fault(samples, i, absl::StrCat("reward is ", s.reward));
  if (spec.estimator == Estimator::kRemax) {
    if (!s.reward_baseline) return Fault(samples, i, "reward_baseline is missing");
    if (!std::isfinite(*s.reward_baseline)) {
      return Fault(samples, i, absl::StrCat("reward_baseline is ", *s.reward_baseline));
    }
  }
  if (spec.estimator == Estimator::kGiven && s.token_advantages.empty() && s.length > 0) {
    if (!s.advantage) return Fault(samples, i, "advantage is missing");
    if (!std::isfinite(*s.advantage)) {
      return Fault(samples, i, absl::StrCat("advantage is ", *s.advantage));
    }
  }
  if (spec.use_cost) {
    if (!s.cost) return Fault(samples, i, "cost is missing");
    if (!std::isfinite(*s.cost)) return Fault(samples, i, absl::StrCat("cost is ", *s.cost));
  }
  if (spec.filter_groups && s.filter_metric && !std::isfinite(*s.filter_metric)) {
    return Fault(samples, i, absl::StrCat(spec.filter_metric, " is ", *s.filter_metric));
  }
  return absl::OkStatus();
}

/// Names the sample and column that made the result not finite.
absl::Status NameTheCulprit(absl::Span<const Sample> samples, std::vector<NamedColumn> columns) {
  columns.push_back({"token_rewards", &Sample::token_rewards});
  for (size_t i = 0; i < samples.size(); ++i) {
    const Sample& s = samples[i];
    for (const NamedColumn& c : columns) {
      const absl::Span<const float> values = s.*c.column;
      for (size_t t = 0; t < values.size(); ++t) {
        if ((!s.mask.empty() && s.mask[t] == 0) || std::isfinite(values[t])) continue;
        return Fault(samples, i, absl::StrCat("token ", t, ": ", c.name, " is ", values[t]));
      }
    }
  }
  return absl::InvalidArgumentError("the advantages overflow: rewards or values are too large");
}

// ---- Sums over unmasked tokens of kept samples ------------------------------------------------

/// Calls visit(place in the flat arrays) for each.
template <class Visit>
void ForEachToken(absl::Span<const Sample> samples, const BatchAdvantages& out, Visit visit) {
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!out.kept[i]) continue;
    const Sample& s = samples[i];
    const size_t begin = out.offsets[i], end = out.offsets[i + 1];
    if (s.mask.empty()) {
      for (size_t place = begin; place < end; ++place) visit(place);
    } else {
      for (size_t place = begin; place < end; ++place) {
        if (s.mask[place - begin] != 0) visit(place);
      }
    }
  }
}

/// Calls visit(advantage, how many unmasked tokens have it).
template <class Visit>
void ForEachAdvantage(absl::Span<const Sample> samples, const BatchAdvantages& out,
                      Estimate& estimate, Visit visit) {
  if (estimate.per_token) {
    ForEachToken(samples, out, [&](size_t place) { visit(estimate.advantages[place], 1.0); });
    return;
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto count = static_cast<double>(CountUnmasked(samples[i]));
    if (out.kept[i] && count > 0) visit(estimate.advantages[i], count);
  }
}

struct Statistics {
  double count = 0, sum = 0;
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void Add(double value, double times = 1) {
    count += times;
    sum += value * times;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  double mean() const { return count == 0 ? 0 : sum / count; }
  /// Each of them is a float32, and their sum is finite.
  bool fits_float() const {
    constexpr double kMost = std::numeric_limits<float>::max();
    return std::isfinite(sum) && (count == 0 || (low >= -kMost && high <= kMost));
  }
  void Write(const std::string& name, std::map<std::string, double>& metrics) const {
    metrics[name + "/mean"] = mean();
    metrics[name + "/min"] = count == 0 ? 0 : low;
    metrics[name + "/max"] = count == 0 ? 0 : high;
  }
};

/// (A - mean) / sqrt(var + 1e-8), the variance with n - 1.
void Whiten(absl::Span<const Sample> samples, const Statistics& before, const BatchAdvantages& out,
            Estimate& estimate) {
  const bool alike = before.low == before.high;  // then 0 and not what rounding leaves
  const double mean = alike ? before.low : before.mean();
  double squares = 0;
  ForEachAdvantage(samples, out, estimate,
                   [&](double& a, double times) { squares += (a - mean) * (a - mean) * times; });
  const double freedom = before.count - 1;
  const double variance = before.count < 2 ? 0 : squares / freedom;
  const double scale = 1 / std::sqrt(variance + 1e-8);
  ForEachAdvantage(samples, out, estimate, [&](double& a, double) { a = (a - mean) * scale; });
}

/// The returns, and how well a critic's `column` of values (null: there is no critic) predicted
/// them: metrics critic/<prefix>returns, critic/<prefix>values, <critic>/vf_explained_var.
void AddReturnMetrics(absl::Span<const Sample> samples, const std::vector<double>& target_returns,
                      const std::string& prefix, Column column, const std::string& critic,
                      BatchAdvantages& out) {
  Statistics returns;
  ForEachToken(samples, out, [&](size_t place) { returns.Add(target_returns[place]); });
  returns.Write(absl::StrCat("critic/", prefix, "returns"), out.metrics);
  if (column == nullptr) return;
  Statistics values, errors;
  double squares = 0, error_squares = 0;
  const double mean = returns.mean();
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!out.kept[i]) continue;
    const Sample& s = samples[i];
    for (size_t t = 0; t < s.length; ++t) {
      if (!s.mask.empty() && s.mask[t] == 0) continue;
      const double value = (s.*column)[t], target = target_returns[out.offsets[i] + t];
      values.Add(value);
      errors.sum += target - value;
      error_squares += (target - value) * (target - value);
      squares += (target - mean) * (target - mean);
    }
  }
  values.Write(absl::StrCat("critic/", prefix, "values"), out.metrics);
  if (values.count < 2) return;
  const double n = values.count;
  const double error_variance = (error_squares - errors.sum * errors.sum / n) / (n - 1);
  out.metrics[critic + "/vf_explained_var"] = 1 - error_variance / (squares / (n - 1) + 1e-5);
}

/// Makes one advantage per sample one per token.
void Spread(absl::Span<const Sample> samples, absl::Span<const size_t> offsets,
            Estimate& estimate) {
  if (estimate.per_token) return;
  std::vector<double> tokens(offsets.back(), 0.0);
  for (size_t i = 0; i < samples.size(); ++i) {
    const Sample& s = samples[i];
    for (size_t t = 0; t < s.length; ++t) {
      if (s.mask.empty() || s.mask[t] != 0) tokens[offsets[i] + t] = estimate.advantages[i];
    }
  }
  estimate.advantages = std::move(tokens);
  estimate.per_token = true;
}

/// Lambda learns from the batch; the cost's advantages join the reward's. Gives the cost's returns,
/// if a critic learns them.
std::vector<double> CombineWithCost(absl::Span<const Sample> samples, const EstimatorSpec& spec,
                                    Estimator cost_estimator, const Shaping& shaping,
                                    Estimate& estimate, BatchAdvantages& out) {
  if (!samples.empty()) {
    out.state.log_lambda =
        StepLogLambda(out.state.log_lambda, shaping.metrics.at("critic/cost/mean"), spec);
  }
  const double lambda = std::exp(out.state.log_lambda);
  out.metrics["train/lambda"] = lambda;
  Estimate cost =
      RunEstimator(cost_estimator, samples, out.offsets, shaping.cost, Signal::kCost, spec);
  if (estimate.per_token || cost.per_token) {
    Spread(samples, out.offsets, estimate);
    Spread(samples, out.offsets, cost);
  }
  for (size_t k = 0; k < estimate.advantages.size(); ++k) {
    const double sum = 1 + lambda;
    estimate.advantages[k] = (estimate.advantages[k] - lambda * cost.advantages[k]) / sum;
  }
  if (cost_estimator != Estimator::kGae) return {};
  return std::move(cost.returns);
}

std::vector<float> Rounded(const std::vector<double>& values) {
  return std::vector<float>(values.begin(), values.end());
}

void CountGroups(absl::Span<const Sample> samples, BatchAdvantages& out) {
  double filtered = 0;
  const auto groups = Groups(samples);
  for (const std::vector<size_t>& group : groups) filtered += out.kept[group.front()] ? 0 : 1;
  out.metrics["train/groups"] = static_cast<double>(groups.size());
  out.metrics["train/filtered_groups"] = filtered;
}

}  // namespace

absl::Span<const float> BatchAdvantages::AdvantagesOf(size_t i) const {
  if (!per_token) return absl::MakeConstSpan(advantages).subspan(i, 1);
  return absl::MakeConstSpan(advantages).subspan(offsets[i], offsets[i + 1] - offsets[i]);
}

absl::Span<const float> BatchAdvantages::ReturnsOf(size_t i) const {
  if (returns.empty()) return {};
  return absl::MakeConstSpan(returns).subspan(offsets[i], offsets[i + 1] - offsets[i]);
}

absl::Span<const float> BatchAdvantages::CostReturnsOf(size_t i) const {
  if (cost_returns.empty()) return {};
  return absl::MakeConstSpan(cost_returns).subspan(offsets[i], offsets[i + 1] - offsets[i]);
}

absl::StatusOr<BatchAdvantages> ComputeAdvantages(absl::Span<const Sample> samples,
                                                  const EstimatorSpec& spec,
                                                  const EstimatorState& state) {
  const Estimator cost_estimator = EstimatorOf(spec.cost_estimator).value_or(spec.estimator);
  const bool recomputed = std::any_of(samples.begin(), samples.end(),
                                      [](const Sample& s) { return !s.rollout_log_probs.empty(); });
  const std::vector<NamedColumn> columns = ColumnsIn(spec, cost_estimator, recomputed);
  for (size_t i = 0; i < samples.size(); ++i) {
    absl::Status status = CheckLengths(samples, i, columns);
    status.Update(CheckScalars(samples, i, spec));
    if (!status.ok()) return status;
  }
  BatchAdvantages out;
  out.offsets = Offsets(samples);
  out.kept = FilterGroups(samples, spec);
  out.state = state;
  const Shaping shaping = ShapeRewards(samples, out.offsets, spec, state.kl_coef);
  out.metrics = shaping.metrics;
  Estimate estimate =
      RunEstimator(spec.estimator, samples, out.offsets, shaping.reward, Signal::kReward, spec);
  std::vector<double> cost_returns;
  if (spec.use_cost) {
    cost_returns = CombineWithCost(samples, spec, cost_estimator, shaping, estimate, out);
  }
  out.per_token = estimate.per_token;

  Statistics advantages;
  const auto add = [&](double& a, double times) { advantages.Add(a, times); };
  ForEachAdvantage(samples, out, estimate, add);
  AddRolloutMismatch(samples, out.kept, out.metrics);
  const auto mismatch = out.metrics.find("rollout_corr/log_prob_abs_diff");
  const bool sound = mismatch == out.metrics.end() || std::isfinite(mismatch->second);
  if (!advantages.fits_float() || !sound) return NameTheCulprit(samples, columns);
  if (spec.whiten_advantages) {
    Whiten(samples, advantages, out, estimate);
    advantages = {};
    ForEachAdvantage(samples, out, estimate, add);
  }
  advantages.Write("critic/advantages", out.metrics);
  if (!estimate.returns.empty()) {
    const bool critic = spec.estimator == Estimator::kGae;
    AddReturnMetrics(samples, estimate.returns, "", critic ? &Sample::values : nullptr, "critic",
                     out);
  }
  if (!cost_returns.empty()) {
    AddReturnMetrics(samples, cost_returns, "cost_", &Sample::cost_values, "cost_critic", out);
  }
  out.advantages = Rounded(estimate.advantages);
  out.returns = Rounded(estimate.returns);
  out.cost_returns = Rounded(cost_returns);
  CountGroups(samples, out);
  if (spec.use_kl_in_reward && spec.kl_ctrl == "adaptive") {
    out.state.kl_coef =
        AdaptKlCoef(state.kl_coef, shaping.mean_kl, static_cast<double>(samples.size()),
                    spec.target_kl, spec.horizon, kLeastKlCoef * spec.kl_coef);
  }
  return out;
}

}  // namespace baton::algorithms
