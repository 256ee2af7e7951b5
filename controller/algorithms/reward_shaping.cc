#include "controller/algorithms/reward_shaping.h"

#include <algorithm>
#include <cmath>

namespace baton::algorithms {
namespace {

constexpr double kMaxLogRatio = 20;
constexpr double kMaxK3 = 10;

/// Adds -coef * KL to the reward's tokens and +coef * KL to the cost's.
void AddKl(absl::Span<const Sample> samples, absl::Span<const size_t> offsets,
           const EstimatorSpec& spec, double coef, Shaping& shaping) {
  shaping.reward.tokens.resize(offsets.back(), 0.0);
  if (spec.use_cost) shaping.cost.tokens.resize(offsets.back(), 0.0);
  const KlType::Estimate estimate = ParseKlType(spec.kl_penalty).value_or(KlType()).estimate;
  double means = 0, counted = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Sample& s = samples[i];
    double* const rewards = shaping.reward.tokens.data() + offsets[i];
    double sum = 0, count = 0;
    for (size_t t = 0; t < s.length; ++t) {
      if (!s.mask.empty() && s.mask[t] == 0) continue;
      const double d = static_cast<double>(s.log_probs[t]) - s.ref_log_probs[t];
      const double kl = KlEstimate(d, estimate);
      sum += kl;
      ++count;
      rewards[t] -= coef * kl;
      if (spec.use_cost) shaping.cost.tokens[offsets[i] + t] = coef * kl;
    }
    shaping.reward.total[i] -= coef * sum;
    if (spec.use_cost) shaping.cost.total[i] += coef * sum;
    if (count == 0) continue;
    means += sum / count;
    counted += 1;
  }
  shaping.mean_kl = counted == 0 ? 0 : means / counted;
  shaping.metrics["actor/reward_kl_penalty"] = shaping.mean_kl;
  shaping.metrics["actor/reward_kl_penalty_coeff"] = coef;
}

void AddTokenRewards(absl::Span<const Sample> samples, absl::Span<const size_t> offsets,
                     ShapedRewards& reward) {
  for (size_t i = 0; i < samples.size(); ++i) {
    const Sample& s = samples[i];
    if (s.token_rewards.empty()) continue;
    reward.tokens.resize(offsets.back(), 0.0);
    for (size_t t = 0; t < s.length; ++t) {
      if (!s.mask.empty() && s.mask[t] == 0) continue;
      reward.tokens[offsets[i] + t] = s.token_rewards[t];
      reward.total[i] += s.token_rewards[t];
    }
  }
}

void ShapeOutcomes(absl::Span<const Sample> samples, const EstimatorSpec& spec, Shaping& shaping) {
  double penalties = 0, overlong = 0, flawed = 0;
  std::vector<double> scores, costs;
  for (const Sample& s : samples) {
    scores.push_back(s.reward);
    const double late = OverlongPenalty(static_cast<double>(s.length), spec.max_response_length,
                                        spec.overlong_buffer_len, spec.overlong_penalty_factor);
    const double flaw = FlawedPositivePenalty(s.reward, s.flawed, spec.flawed_positive_penalty);
    penalties += late;
    overlong += late < 0 ? 1 : 0;
    flawed += flaw < 0 ? 1 : 0;
    shaping.reward.outcome.push_back(s.reward + late + flaw);
    if (spec.use_cost) costs.push_back(s.cost.value_or(0));
  }
  shaping.reward.total = shaping.reward.outcome;
  shaping.cost.outcome = shaping.cost.total = costs;
  AddStatistics("critic/score", scores, shaping.metrics);
  AddStatistics("critic/cost", costs, shaping.metrics);
  const double n = std::max<double>(1, static_cast<double>(samples.size()));
  if (spec.overlong_buffer_len > 0) {
    shaping.metrics["reward/overlong_penalty/mean"] = penalties / n;
    shaping.metrics["reward/overlong_ratio"] = overlong / n;
  }
  if (spec.flawed_positive_penalty > 0) shaping.metrics["reward/flawed_ratio"] = flawed / n;
}

}  // namespace

EstimatorState InitialState(const EstimatorSpec& spec) {
  return {spec.kl_coef, std::log(spec.lambda_init)};
}

double OverlongPenalty(double length, double max_response_length, double buffer, double factor) {
  if (buffer <= 0) return 0;
  return std::min(-(length - (max_response_length - buffer)) / buffer * factor, 0.0);
}

double FlawedPositivePenalty(double reward, bool flawed, double penalty) {
  return flawed && reward > 0 ? -penalty : 0;
}

double KlEstimate(double d, KlType::Estimate estimate) {
  if (estimate == KlType::kK1) return d;
  if (estimate == KlType::kAbs) return std::abs(d);
  if (estimate == KlType::kK2) return d * d / 2;
  const double bounded = std::clamp(d, -kMaxLogRatio, kMaxLogRatio);
  return std::min(std::exp(-bounded) + bounded - 1, kMaxK3);
}

double AdaptKlCoef(double coef, double kl, double samples, double target_kl, double horizon,
                   double floor) {
  const double error = std::clamp(kl / target_kl - 1, -0.2, 0.2);
  return std::max(floor, coef * (1 + error * samples / horizon));
}

double StepLogLambda(double log_lambda, double mean_cost, const EstimatorSpec& spec) {
  const double step = spec.lambda_lr * std::exp(log_lambda) * (mean_cost - spec.cost_limit);
  return std::min(log_lambda + step, std::log(spec.lambda_max));
}

Shaping ShapeRewards(absl::Span<const Sample> samples, absl::Span<const size_t> offsets,
                     const EstimatorSpec& spec, double kl_coef) {
  Shaping shaping;
  ShapeOutcomes(samples, spec, shaping);
  AddTokenRewards(samples, offsets, shaping.reward);
  if (spec.use_kl_in_reward) AddKl(samples, offsets, spec, kl_coef, shaping);
  AddStatistics("critic/rewards", shaping.reward.total, shaping.metrics);
  return shaping;
}

bool AllEqual(absl::Span<const double> metrics) {
  return std::all_of(metrics.begin(), metrics.end(),
                     [&](double m) { return m == metrics.front(); });
}

std::vector<bool> FilterGroups(absl::Span<const Sample> samples, const EstimatorSpec& spec) {
  std::vector<bool> kept(samples.size(), true);
  if (!spec.filter_groups) return kept;
  for (const std::vector<size_t>& group : Groups(samples)) {
    std::vector<double> metrics;
    for (const size_t i : group) {
      metrics.push_back(samples[i].filter_metric.value_or(samples[i].reward));
    }
    if (group.size() < 2 || !AllEqual(metrics)) continue;
    for (const size_t i : group) kept[i] = false;
  }
  return kept;
}

void AddStatistics(const std::string& name, absl::Span<const double> values,
                   std::map<std::string, double>& metrics) {
  if (values.empty()) return;
  double sum = 0;
  for (const double v : values) sum += v;
  metrics[name + "/mean"] = sum / static_cast<double>(values.size());
  metrics[name + "/min"] = *std::min_element(values.begin(), values.end());
  metrics[name + "/max"] = *std::max_element(values.begin(), values.end());
}

}  // namespace baton::algorithms
