#include "sdk/common/schema/estimator_options.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton {
namespace {

constexpr std::array<std::pair<absl::string_view, Estimator>, 8> kEstimators = {{
    {"gae", Estimator::kGae},
    {"grpo", Estimator::kGrpo},
    {"dr_grpo", Estimator::kDrGrpo},
    {"rloo", Estimator::kRloo},
    {"reinforce_plus_plus", Estimator::kReinforcePlusPlus},
    {"reinforce_plus_plus_baseline", Estimator::kReinforcePlusPlusBaseline},
    {"remax", Estimator::kRemax},
    {"given", Estimator::kGiven},
}};

uint32_t OfEstimators(const std::vector<absl::string_view>& estimators) {
  uint32_t users = 0;
  for (const absl::string_view name : estimators) users |= UserBit(EstimatorOf(name).value());
  return users;
}

uint32_t NotOfEstimators(const std::vector<absl::string_view>& estimators) {
  return ~OfEstimators(estimators);
}

std::vector<OptionField<EstimatorSpec>> MakeEstimatorTable() {
  constexpr uint32_t kAll = ~0u;
  return {
#define BATON_ESTIMATOR_OPTION(name, type, default_value, estimators, limits, meaning) \
  {#name, estimators, &EstimatorSpec::name, limits, meaning},
#include "sdk/common/schema/estimator_options.def"
#undef BATON_ESTIMATOR_OPTION
  };
}

absl::string_view NameOf(Estimator estimator) {
  return kEstimators[static_cast<size_t>(estimator)].first;
}

// The table's defaults, but for those in which the estimator differs.
EstimatorSpec DefaultsOf(Estimator estimator) {
  EstimatorSpec spec;
  spec.estimator = estimator;
  spec.whiten_advantages = estimator == Estimator::kGae ||
                           estimator == Estimator::kReinforcePlusPlus ||
                           estimator == Estimator::kReinforcePlusPlusBaseline;
  spec.norm_adv_by_std_in_grpo = estimator != Estimator::kDrGrpo;
  spec.cost_estimator = std::string(NameOf(estimator));
  return spec;
}

}  // namespace

const std::vector<OptionField<EstimatorSpec>>& EstimatorOptionTable() {
  static const auto* const table =
      new std::vector<OptionField<EstimatorSpec>>(MakeEstimatorTable());
  return *table;
}

std::vector<std::string> EstimatorNames() {
  std::vector<std::string> names;
  for (const auto& estimator : kEstimators) names.emplace_back(estimator.first);
  return names;
}

std::optional<Estimator> EstimatorOf(absl::string_view name) {
  for (const auto& [known, estimator] : kEstimators) {
    if (known == name) return estimator;
  }
  return std::nullopt;
}

std::string UnknownEstimator(absl::string_view name) {
  return absl::StrCat("'", name, "' is no estimator; there are ",
                      absl::StrJoin(EstimatorNames(), ", "));
}

EstimatorSpec ReadEstimator(Estimator estimator, const Options& options,
                            std::vector<OptionProblem>& problems) {
  EstimatorSpec spec = DefaultsOf(estimator);
  ApplyOptions(EstimatorOptionTable(), NameOf(estimator), UserBit(estimator), options, spec,
               problems);
  if (options.count("critic_lam") == 0) spec.critic_lam = spec.lam;
  return spec;
}

}  // namespace baton
