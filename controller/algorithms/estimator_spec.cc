#include "controller/algorithms/estimator_spec.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/base/kl_type.h"

namespace baton::algorithms {
namespace {

using Field = OptionField<EstimatorSpec>;

constexpr uint32_t Bit(Estimator e) { return 1u << static_cast<int>(e); }
constexpr uint32_t kAll = ~0u;
constexpr uint32_t kFromRewards = kAll & ~Bit(Estimator::kGiven);
constexpr uint32_t kDiscounted = Bit(Estimator::kGae) | Bit(Estimator::kReinforcePlusPlus);

const std::array<std::pair<absl::string_view, Estimator>, 8>& Names() {
  static const auto* const kNames = new std::array<std::pair<absl::string_view, Estimator>, 8>{{
      {"gae", Estimator::kGae},
      {"grpo", Estimator::kGrpo},
      {"dr_grpo", Estimator::kDrGrpo},
      {"rloo", Estimator::kRloo},
      {"reinforce_plus_plus", Estimator::kReinforcePlusPlus},
      {"reinforce_plus_plus_baseline", Estimator::kReinforcePlusPlusBaseline},
      {"remax", Estimator::kRemax},
      {"given", Estimator::kGiven},
  }};
  return *kNames;
}

const std::vector<Field>& EstimatorFields() {
  using S = EstimatorSpec;
  constexpr uint32_t kGae = Bit(Estimator::kGae), kGrpo = Bit(Estimator::kGrpo);
  const Bounds unit{0, 1}, positive{.low = 0, .above_low = true}, natural{.low = 0}, any;
  static const auto* const kTable = new std::vector<Field>{
      {"gamma", kDiscounted, &S::gamma, unit},
      {"lam", kGae, &S::lam, unit},
      {"critic_lam", kGae, &S::critic_lam, unit},
      {"adaptive_lam_alpha", kGae, &S::adaptive_lam_alpha, natural},
      {"norm_adv_by_std_in_grpo", kGrpo, &S::norm_adv_by_std_in_grpo},
      {"epsilon", kGrpo, &S::epsilon, positive},
      {"whiten_advantages", kAll, &S::whiten_advantages},
      {"use_kl_in_reward", kFromRewards, &S::use_kl_in_reward},
      {"kl_penalty", kFromRewards, &S::kl_penalty, any, KlEstimateNames()},
      {"kl_coef", kFromRewards, &S::kl_coef, natural},
      {"kl_ctrl", kFromRewards, &S::kl_ctrl, any, {"fixed", "adaptive"}},
      {"target_kl", kFromRewards, &S::target_kl, positive},
      {"horizon", kFromRewards, &S::horizon, positive},
      {"overlong_buffer_len", kFromRewards, &S::overlong_buffer_len, natural},
      {"max_response_length", kFromRewards, &S::max_response_length, natural},
      {"overlong_penalty_factor", kFromRewards, &S::overlong_penalty_factor, natural},
      {"flawed_positive_penalty", kFromRewards, &S::flawed_positive_penalty, natural},
      {"filter_groups", kAll, &S::filter_groups},
      {"filter_metric", kAll, &S::filter_metric},
      {"use_cost", kFromRewards, &S::use_cost},
      {"cost_estimator", kFromRewards, &S::cost_estimator},
      {"cost_limit", kFromRewards, &S::cost_limit},
      {"lambda_init", kFromRewards, &S::lambda_init, positive},
      {"lambda_lr", kFromRewards, &S::lambda_lr, natural},
      {"lambda_max", kFromRewards, &S::lambda_max, positive},
  };
  return *kTable;
}

std::string UnknownEstimator(absl::string_view name) {
  return absl::StrCat("'", name, "' is no estimator; there are ",
                      absl::StrJoin(EstimatorNames(), ", "));
}

bool ComparesGroups(Estimator e) {
  return e == Estimator::kGrpo || e == Estimator::kDrGrpo || e == Estimator::kRloo ||
         e == Estimator::kReinforcePlusPlusBaseline;
}

EstimatorNeeds NeedsOf(const EstimatorSpec& spec, Estimator cost_estimator) {
  EstimatorNeeds needs;
  needs.columns = {"reward"};
  const bool gae = spec.estimator == Estimator::kGae;
  const bool cost_gae = spec.use_cost && cost_estimator == Estimator::kGae;
  const auto per_token = [](Estimator e) { return !ComparesGroups(e) && e != Estimator::kGiven; };
  needs.groups =
      ComparesGroups(spec.estimator) || (spec.use_cost && ComparesGroups(cost_estimator));
  needs.per_token = per_token(spec.estimator) || (spec.use_cost && per_token(cost_estimator));
  needs.returns = per_token(spec.estimator);
  needs.cost_returns = cost_gae;
  if (spec.estimator == Estimator::kRemax) needs.columns.push_back("reward_baseline");
  if (spec.estimator == Estimator::kGiven) needs.columns.push_back("advantage");
  if (spec.use_cost) needs.columns.push_back("cost");
  if (spec.flawed_positive_penalty > 0) needs.columns.push_back("flawed");
  if (spec.filter_groups && spec.filter_metric != "reward") {
    needs.columns.push_back(spec.filter_metric);
  }
  if (spec.use_kl_in_reward) {
    needs.columns.push_back("rollout_log_prob");
    needs.columns.push_back("ref_log_prob");
  }
  if (gae) needs.columns.push_back("values");
  if (cost_gae) needs.columns.push_back("cost_values");
  return needs;
}

/// What no single option's bounds can say.
void CheckTogether(const EstimatorSpec& spec, std::vector<OptionProblem>& problems) {
  if (spec.overlong_buffer_len > 0 && spec.max_response_length < spec.overlong_buffer_len) {
    problems.push_back({"overlong_buffer_len", absl::StrCat(spec.overlong_buffer_len,
                                                            " is longer than max_response_length, ",
                                                            spec.max_response_length)});
  }
  if (spec.use_cost && spec.lambda_init > spec.lambda_max) {
    problems.push_back(
        {"lambda_init", absl::StrCat(spec.lambda_init, " is above lambda_max, ", spec.lambda_max)});
  }
  if (spec.kl_ctrl == "adaptive" && spec.use_kl_in_reward && spec.kl_coef == 0) {
    problems.push_back({"kl_coef", "0 stays 0 under kl_ctrl adaptive, which multiplies it"});
  }
}

}  // namespace

std::vector<std::string> EstimatorNames() {
  std::vector<std::string> names;
  for (const auto& entry : Names()) names.emplace_back(entry.first);
  return names;
}

std::optional<Estimator> EstimatorOf(absl::string_view name) {
  for (const auto& [known, estimator] : Names()) {
    if (known == name) return estimator;
  }
  return std::nullopt;
}

std::vector<std::string> EstimatorOptionNames(absl::string_view name) {
  std::vector<std::string> names;
  const std::optional<Estimator> estimator = EstimatorOf(name);
  if (!estimator) return names;
  for (const Field& field : EstimatorFields()) {
    if ((field.users & Bit(*estimator)) != 0) names.emplace_back(field.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

EstimatorCheck CheckEstimator(absl::string_view name, const Options& options) {
  EstimatorCheck check;
  const std::optional<Estimator> estimator = EstimatorOf(name);
  if (!estimator) {
    check.problems.push_back({"", UnknownEstimator(name)});
    return check;
  }
  EstimatorSpec& spec = check.spec;
  spec.estimator = *estimator;
  spec.whiten_advantages =
      (kDiscounted & Bit(*estimator)) != 0 || *estimator == Estimator::kReinforcePlusPlusBaseline;
  spec.norm_adv_by_std_in_grpo = *estimator != Estimator::kDrGrpo;
  spec.cost_estimator = std::string(name);
  ApplyOptions<EstimatorSpec>(EstimatorFields(), name, Bit(*estimator), options, spec,
                              check.problems);
  if (options.count("critic_lam") == 0) spec.critic_lam = spec.lam;
  std::optional<Estimator> cost_estimator = EstimatorOf(spec.cost_estimator);
  if (!cost_estimator) {
    check.problems.push_back({"cost_estimator", UnknownEstimator(spec.cost_estimator)});
    cost_estimator = estimator;
  } else if (spec.use_cost && *cost_estimator == Estimator::kRemax) {
    check.problems.push_back({"cost_estimator", "remax has no greedy baseline of a cost"});
  } else if (spec.use_cost && *cost_estimator == Estimator::kGiven) {
    check.problems.push_back({"cost_estimator", "given has no advantages of a cost"});
  }
  CheckTogether(spec, check.problems);
  check.needs = NeedsOf(spec, *cost_estimator);
  return check;
}

absl::StatusOr<EstimatorSpec> MakeEstimatorSpec(absl::string_view name, const Options& options) {
  EstimatorCheck check = CheckEstimator(name, options);
  absl::Status status = ToStatus(check.problems);
  if (!status.ok()) return status;
  return std::move(check.spec);
}

}  // namespace baton::algorithms
