// The advantage estimators by name, and their options. docs/algorithms.md has the formulas.
#ifndef BATON_SDK_COMMON_SCHEMA_ESTIMATOR_OPTIONS_H_
#define BATON_SDK_COMMON_SCHEMA_ESTIMATOR_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "sdk/common/schema/options.h"

namespace baton {

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

/// An estimator with its options, one member for each row of estimator_options.def.
struct EstimatorSpec {
  Estimator estimator = Estimator::kGrpo;

#define BATON_ESTIMATOR_OPTION(name, type, default_value, estimators, limits, meaning) \
  type name = default_value;
#include "sdk/common/schema/estimator_options.def"
#undef BATON_ESTIMATOR_OPTION
};

/// Every option of every estimator, in the order of the documentation.
const std::vector<OptionField<EstimatorSpec>>& EstimatorOptionTable();
/// The bit of an estimator in OptionField.users.
constexpr uint32_t UserBit(Estimator e) { return 1u << static_cast<int>(e); }

/// gae, grpo, dr_grpo, rloo, reinforce_plus_plus, reinforce_plus_plus_baseline, remax, given.
std::vector<std::string> EstimatorNames();
/// nullopt for an unknown name.
std::optional<Estimator> EstimatorOf(absl::string_view name);
/// "'ppo' is no estimator; there are …".
std::string UnknownEstimator(absl::string_view name);

/// The estimator with the values of `options`; absent options have the estimator's own defaults.
/// Mistakes are added to `problems`: options that it does not have, types, bounds.
EstimatorSpec ReadEstimator(Estimator estimator, const Options& options,
                            std::vector<OptionProblem>& problems);

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_ESTIMATOR_OPTIONS_H_
