// Requirements of an advantage estimator on a job, so that a spec is checked before it runs.
#ifndef BATON_CONTROLLER_ALGORITHMS_ESTIMATOR_SPEC_H_
#define BATON_CONTROLLER_ALGORITHMS_ESTIMATOR_SPEC_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/common/schema/estimator_options.h"

namespace baton::algorithms {

/// Columns that every sample must have. Per trajectory: `reward`, `cost`, `reward_baseline`,
/// `flawed` and the filter_metric. Per token: `rollout_log_prob` (fills Sample::log_probs;
/// recomputed ones serve as well), `ref_log_prob`, `values`, `cost_values`. `advantage`: per
/// trajectory or per token.
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

}  // namespace baton::algorithms

#endif  // BATON_CONTROLLER_ALGORITHMS_ESTIMATOR_SPEC_H_
