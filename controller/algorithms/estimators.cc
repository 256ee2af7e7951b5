#include "controller/algorithms/estimators.h"

#include <algorithm>
#include <cmath>

namespace baton::algorithms {
namespace {

/// The last unmasked token, or `length` when there is none.
size_t LastUnmasked(const Sample& s) {
  if (s.mask.empty()) return s.length == 0 ? s.length : s.length - 1;
  for (size_t t = s.length; t-- > 0;) {
    if (s.mask[t] != 0) return t;
  }
  return s.length;
}

/// Calls visit(t, r_t) for the unmasked tokens of a sample, last first.
template <class Visit>
void Backwards(const Sample& s, double outcome, const double* tokens, Visit visit) {
  const size_t last = LastUnmasked(s);
  if (last == s.length) return;
  visit(last, outcome + (tokens != nullptr ? tokens[last] : 0.0));
  if (s.mask.empty() && tokens == nullptr) {
    for (size_t t = last; t-- > 0;) visit(t, 0.0);
  } else if (s.mask.empty()) {
    for (size_t t = last; t-- > 0;) visit(t, tokens[t]);
  } else {
    for (size_t t = last; t-- > 0;) {
      if (s.mask[t] == 0) continue;
      visit(t, tokens != nullptr ? tokens[t] : 0.0);
    }
  }
}

/// Runs `estimate(sample, outcome, its tokens or null, advantages, returns)` for each sample.
template <class Function>
Estimate PerToken(absl::Span<const Sample> samples, absl::Span<const size_t> offsets,
                  const ShapedRewards& rewards, Function estimate) {
  Estimate out;
  out.per_token = true;
  out.advantages.resize(offsets.back(), 0.0);
  out.returns.resize(offsets.back(), 0.0);
  for (size_t i = 0; i < samples.size(); ++i) {
    const double* tokens = rewards.tokens.empty() ? nullptr : rewards.tokens.data() + offsets[i];
    estimate(samples[i], rewards.outcome[i], tokens, out.advantages.data() + offsets[i],
             out.returns.data() + offsets[i]);
  }
  return out;
}

Estimate Gae(absl::Span<const Sample> samples, absl::Span<const size_t> offsets,
             const ShapedRewards& rewards, Signal signal, const EstimatorSpec& spec) {
  return PerToken(samples, offsets, rewards,
                  [&](const Sample& s, double outcome, const double* tokens, double* advantages,
                      double* returns) {
                    const float* values =
                        (signal == Signal::kReward ? s.values : s.cost_values).data();
                    const double gamma = spec.gamma;
                    const double decay = gamma * PolicyLambda(spec, CountUnmasked(s));
                    const double critic_decay = gamma * spec.critic_lam;
                    double next = 0, policy = 0, critic = 0;
                    Backwards(s, outcome, tokens, [&](size_t t, double reward) {
                      const double value = values[t];
                      const double delta = reward + gamma * next - value;
                      policy = delta + decay * policy;
                      critic = delta + critic_decay * critic;
                      next = value;
                      advantages[t] = policy;
                      returns[t] = critic + value;
                    });
                  });
}

Estimate ReinforcePlusPlus(absl::Span<const Sample> samples, absl::Span<const size_t> offsets,
                           const ShapedRewards& rewards, double gamma) {
  return PerToken(samples, offsets, rewards,
                  [&](const Sample& s, double outcome, const double* tokens, double* advantages,
                      double* returns) {
                    double sum = 0;
                    Backwards(s, outcome, tokens, [&](size_t t, double reward) {
                      sum = reward + gamma * sum;
                      advantages[t] = returns[t] = sum;
                    });
                  });
}

Estimate Remax(absl::Span<const Sample> samples, absl::Span<const size_t> offsets,
               const ShapedRewards& rewards) {
  return PerToken(samples, offsets, rewards,
                  [&](const Sample& s, double outcome, const double* tokens, double* advantages,
                      double* returns) {
                    const double baseline = s.reward_baseline.value_or(0);
                    double sum = 0;
                    Backwards(s, outcome, tokens, [&](size_t t, double reward) {
                      sum += reward;
                      advantages[t] = sum - baseline;
                      returns[t] = sum;
                    });
                  });
}

Estimate Compared(Estimator estimator, absl::Span<const Sample> samples,
                  const ShapedRewards& rewards, const EstimatorSpec& spec) {
  Estimate out;
  out.advantages.resize(samples.size(), 0.0);
  for (const std::vector<size_t>& group : Groups(samples)) {
    std::vector<double> totals;
    for (const size_t i : group) totals.push_back(rewards.total[i]);
    if (group.size() == 1) {
      out.advantages[group[0]] = totals[0];
      continue;
    }
    if (AllEqual(totals)) continue;
    const auto n = static_cast<double>(group.size());
    double mean = 0, squares = 0;
    for (const double r : totals) mean += r / n;
    for (const double r : totals) squares += (r - mean) * (r - mean);
    double scale = 1;
    if (estimator == Estimator::kRloo) {
      scale = n / (n - 1);  // r - (n mean - r) / (n - 1)
    }
    if (estimator == Estimator::kGrpo && spec.norm_adv_by_std_in_grpo) {
      scale = 1 / (std::sqrt(squares / (n - 1)) + spec.epsilon);
    }
    for (size_t k = 0; k < group.size(); ++k) {
      out.advantages[group[k]] = (totals[k] - mean) * scale;
    }
  }
  return out;
}

// Per token if any response has advantages per token.
Estimate Given(absl::Span<const Sample> samples, absl::Span<const size_t> offsets) {
  Estimate out;
  for (const Sample& s : samples) out.per_token |= !s.token_advantages.empty();
  if (!out.per_token) {
    for (const Sample& s : samples) {
      out.advantages.push_back(s.advantage.value_or(0));
    }
    return out;
  }
  out.advantages.assign(offsets.back(), 0);
  for (size_t i = 0; i < samples.size(); ++i) {
    const Sample& s = samples[i];
    for (size_t t = 0; t < s.length; ++t) {
      if (!s.mask.empty() && s.mask[t] == 0) continue;
      out.advantages[offsets[i] + t] =
          s.token_advantages.empty() ? s.advantage.value_or(0) : double{s.token_advantages[t]};
    }
  }
  return out;
}

}  // namespace

double PolicyLambda(const EstimatorSpec& spec, size_t unmasked_tokens) {
  if (spec.adaptive_lam_alpha <= 0) return spec.lam;
  if (unmasked_tokens == 0) return 0;
  return std::max(0.0, 1 - 1 / (spec.adaptive_lam_alpha * static_cast<double>(unmasked_tokens)));
}

Estimate RunEstimator(Estimator estimator, absl::Span<const Sample> samples,
                      absl::Span<const size_t> offsets, const ShapedRewards& rewards, Signal signal,
                      const EstimatorSpec& spec) {
  switch (estimator) {
    case Estimator::kGae:
      return Gae(samples, offsets, rewards, signal, spec);
    case Estimator::kReinforcePlusPlus:
      return ReinforcePlusPlus(samples, offsets, rewards, spec.gamma);
    case Estimator::kRemax:
      return Remax(samples, offsets, rewards);
    case Estimator::kGiven:
      return Given(samples, offsets);
    case Estimator::kGrpo:
    case Estimator::kDrGrpo:
    case Estimator::kRloo:
    case Estimator::kReinforcePlusPlusBaseline:
      return Compared(estimator, samples, rewards, spec);
  }
  return {};
}

}  // namespace baton::algorithms
