#include "controller/algorithms/estimator_spec.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace baton::algorithms {
namespace {

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

/// Checks of several options together, which the bounds of a single option cannot express.
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

EstimatorCheck CheckEstimator(absl::string_view name, const Options& options) {
  EstimatorCheck check;
  const std::optional<Estimator> estimator = EstimatorOf(name);
  if (!estimator) {
    check.problems.push_back({"", UnknownEstimator(name)});
    return check;
  }
  check.spec = ReadEstimator(*estimator, options, check.problems);
  const EstimatorSpec& spec = check.spec;
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
