// An advantage estimator by name, with its options, and what it needs of a job.
#ifndef BATON_CONTROLLER_ALGORITHMS_ESTIMATOR_SPEC_H_
#define BATON_CONTROLLER_ALGORITHMS_ESTIMATOR_SPEC_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/base/options.h"

namespace baton::algorithms {

using baton::OptionProblem;
using baton::Options;
using baton::OptionValue;

enum class Estimator {
  kGae,
  kGrpo,
  kDrGrpo,
  kRloo,
  kReinforcePlusPlus,
  kReinforcePlusPlusBaseline,
  kRemax,
  kGiven,
};

/// What an `advantage` node asks for. Members are the options of the same name, with their
/// defaults; docs/algorithms.md has the formulas.
struct EstimatorSpec {
  Estimator estimator = Estimator::kGrpo;

  // --- estimator
  double gamma = 1;       ///< gae, reinforce_plus_plus: discount, [0, 1].
  double lam = 1;         ///< gae: the policy's lambda, [0, 1].
  double critic_lam = 1;  ///< gae: lambda of the critic's returns, [0, 1]; unset: lam.
  /// gae: alpha above 0 replaces lam by max(0, 1 - 1 / (alpha * unmasked tokens)) per response
  /// (VAPO: 0.05). 0: off.
  double adaptive_lam_alpha = 0;
  bool norm_adv_by_std_in_grpo = true;  ///< grpo: divide by the group's standard deviation.
  double epsilon = 1e-6;                ///< grpo: added to it. Above 0.
  /// Mean 0 and variance 1 over the batch's unmasked tokens. Default true for gae,
  /// reinforce_plus_plus and reinforce_plus_plus_baseline, else false.
  bool whiten_advantages = false;

  // --- reward shaping, all estimators but given
  bool use_kl_in_reward = false;   ///< Subtract kl_coef * KL(policy, reference) at each token.
  std::string kl_penalty = "k1";   ///< Its estimate, one of KlEstimateNames().
  double kl_coef = 0.001;          ///< At least 0; the first value when adaptive.
  std::string kl_ctrl = "fixed";   ///< "fixed" or "adaptive" (Ziegler et al.).
  double target_kl = 0.1;          ///< adaptive. Above 0. Of the mean over tokens.
  double horizon = 10'000;         ///< adaptive. Above 0, in samples.
  double overlong_buffer_len = 0;  ///< DAPO's soft punishment begins so many tokens before…
  double max_response_length = 0;  ///< …this length. Buffer 0: off.
  double overlong_penalty_factor = 1;
  double flawed_positive_penalty = 0;  ///< Taken off the reward of a flawed sample (FAPO: 1).

  // --- dynamic sampling, all estimators
  bool filter_groups = false;            ///< Drop groups that all have the same filter_metric.
  std::string filter_metric = "reward";  ///< Whose values fill Sample::filter_metric.

  // --- Safe-RLHF, all estimators but given
  bool use_cost = false;       ///< (reward advantage - lambda * cost advantage) / (1 + lambda).
  std::string cost_estimator;  ///< Of the cost's advantages; unset: the same estimator.
  double cost_limit = 0;       ///< Lambda grows while the mean cost is above it.
  double lambda_init = 1;      ///< Above 0.
  double lambda_lr = 0.1;      ///< At least 0; 0 keeps lambda as it is.
  double lambda_max = 5;       ///< Above 0.
};

/// Columns (DESIGN's names) that must be there for every sample. Of the trajectory: `reward`,
/// `cost`, `reward_baseline`, `flawed` and the filter_metric. Per token: `rollout_log_prob` (fills
/// Sample::log_probs; recomputed ones serve as well), `ref_log_prob`, `values`, `cost_values`.
/// `advantage`: of the trajectory, or per token.
struct EstimatorNeeds {
  std::vector<std::string> columns;
  bool per_token = false;  ///< Advantages differ from token to token (else one per sample).
  bool returns = false;    ///< Gives `returns` for a critic to learn.
  bool cost_returns = false;
  /// Compares the samples of a prompt: rollout.n of 1 makes no sense.
  bool groups = false;
};

struct EstimatorCheck {
  std::vector<OptionProblem> problems;  ///< All of them; empty: the rest is valid.
  EstimatorSpec spec;
  EstimatorNeeds needs;
};

/// `name` is one of EstimatorNames(). Pure; the options' path is the caller's to prepend.
EstimatorCheck CheckEstimator(absl::string_view name, const Options& options);
/// The same as one InvalidArgument.
absl::StatusOr<EstimatorSpec> MakeEstimatorSpec(absl::string_view name, const Options& options);

/// gae, grpo, dr_grpo, rloo, reinforce_plus_plus, reinforce_plus_plus_baseline, remax, given.
std::vector<std::string> EstimatorNames();
/// None for a name that is none of them.
std::optional<Estimator> EstimatorOf(absl::string_view name);
/// Options that the estimator has, sorted. Empty for an unknown one.
std::vector<std::string> EstimatorOptionNames(absl::string_view name);

}  // namespace baton::algorithms

#endif  // BATON_CONTROLLER_ALGORITHMS_ESTIMATOR_SPEC_H_
