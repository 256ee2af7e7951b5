// Shaping of a response's reward before advantages are estimated, and the two coefficients that are
// adapted to a batch: the KL coefficient and Safe-RLHF's multiplier. Pure functions.
#ifndef BATON_CONTROLLER_ALGORITHMS_REWARD_SHAPING_H_
#define BATON_CONTROLLER_ALGORITHMS_REWARD_SHAPING_H_

#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "controller/algorithms/estimator_spec.h"
#include "controller/algorithms/sample.h"
#include "sdk/common/schema/kl_type.h"

namespace baton::algorithms {

/// The state that an estimator carries from step to step; part of a checkpoint.
struct EstimatorState {
  double kl_coef = 0;
  double log_lambda = 0;  ///< Safe-RLHF's multiplier is exp of it.
};

EstimatorState InitialState(const EstimatorSpec& spec);

/// DAPO (arXiv 2503.14476, eq. 13): min(-(length - (max - buffer)) / buffer * factor, 0).
double OverlongPenalty(double length, double max_response_length, double buffer, double factor);

/// FAPO (arXiv 2510.22543): -penalty for a response that is right (reward above 0) but flawed.
double FlawedPositivePenalty(double reward, bool flawed, double penalty);

/// Estimate of KL(policy, reference) from one token, d = log_prob - ref_log_prob (kl_type.h).
double KlEstimate(double d, KlType::Estimate estimate);

/// The adaptive KL coefficient never falls below this part of spec.kl_coef: one of 0 would stay 0.
inline constexpr double kLeastKlCoef = 1e-3;

/// Ziegler et al. (arXiv 1909.08593, §2.2): coef * (1 + clip(kl / target - 1, ±0.2) * n / horizon),
/// but at least `floor` (above 0), which a batch beyond the horizon or a long fall would reach.
double AdaptKlCoef(double coef, double kl, double samples, double target_kl, double horizon,
                   double floor);

/// Safe-RLHF (arXiv 2310.12773, §3.3): gradient ascent on log lambda of lambda * (cost - limit),
/// so log lambda + lr * lambda * (mean_cost - limit); at most log(lambda_max).
double StepLogLambda(double log_lambda, double mean_cost, const EstimatorSpec& spec);

/// Rewards (and costs) of a batch: `outcome` comes at the last unmasked token, `tokens` at each.
/// With KL in the reward, the reward includes -kl_coef * KL and the cost +kl_coef * KL, so that
/// their combination is penalised by kl_coef whatever lambda is.
struct ShapedRewards {
  std::vector<double> outcome;  ///< [n]
  std::vector<double> total;    ///< [n]: outcome plus the sum of the unmasked tokens'.
  std::vector<double> tokens;   ///< Flat, masked ones 0; or empty: all 0.
};

struct Shaping {
  ShapedRewards reward;
  ShapedRewards cost;  ///< Empty without use_cost.
  double mean_kl = 0;  ///< Mean over samples of the mean over their unmasked tokens.
  /// critic/score/*, critic/rewards/*, and, where they are in use, critic/cost/*,
  /// actor/reward_kl_penalty, actor/reward_kl_penalty_coeff, reward/overlong_penalty/mean,
  /// reward/overlong_ratio, reward/flawed_ratio.
  std::map<std::string, double> metrics;
};

/// `offsets` = Offsets(samples).
Shaping ShapeRewards(absl::Span<const Sample> samples, absl::Span<const size_t> offsets,
                     const EstimatorSpec& spec, double kl_coef);

/// False for samples of groups of more than one whose filter metrics are all equal (DAPO's dynamic
/// sampling). All true without filter_groups.
std::vector<bool> FilterGroups(absl::Span<const Sample> samples, const EstimatorSpec& spec);
/// The same question for one group: there is nothing to learn from it.
bool AllEqual(absl::Span<const double> metrics);

/// name/{mean, min, max} of values; nothing when there are none.
void AddStatistics(const std::string& name, absl::Span<const double> values,
                   std::map<std::string, double>& metrics);

}  // namespace baton::algorithms

#endif  // BATON_CONTROLLER_ALGORITHMS_REWARD_SHAPING_H_
