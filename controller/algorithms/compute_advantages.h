// Advantages of a batch of responses, from which the actor (and the critics) learn: rewards are
// shaped, groups filtered, advantages estimated, combined with those of the cost, whitened.
#ifndef BATON_CONTROLLER_ALGORITHMS_COMPUTE_ADVANTAGES_H_
#define BATON_CONTROLLER_ALGORITHMS_COMPUTE_ADVANTAGES_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "controller/algorithms/estimator_spec.h"
#include "controller/algorithms/reward_shaping.h"
#include "controller/algorithms/sample.h"

namespace baton::algorithms {

struct BatchAdvantages {
  std::vector<size_t> offsets;      ///< [n + 1], in tokens.
  bool per_token = false;           ///< Else one advantage stands for all tokens of a sample.
  std::vector<float> advantages;    ///< per_token: flat, 0 at masked tokens; else [n].
  std::vector<float> returns;       ///< Flat, or empty (EstimatorNeeds.returns).
  std::vector<float> cost_returns;  ///< Flat, or empty.
  std::vector<bool> kept;           ///< False: its group was dropped, learn nothing from it.
  EstimatorState state;             ///< For the next batch.
  /// The metrics of Shaping; over the unmasked tokens of kept samples critic/{advantages, returns,
  /// values, cost_returns, cost_values}/{mean, min, max}, {critic, cost_critic}/vf_explained_var;
  /// the metrics of rollout_mismatch.h where log-probs were recomputed; train/groups,
  /// train/filtered_groups; train/lambda with use_cost.
  std::map<std::string, double> metrics;

  /// The column of sample i: one value, or one per token.
  absl::Span<const float> AdvantagesOf(size_t i) const;
  absl::Span<const float> ReturnsOf(size_t i) const;      ///< Empty where there are none.
  absl::Span<const float> CostReturnsOf(size_t i) const;  ///< The same.
};

/// `spec` is valid. `state`: InitialState(spec), or the last batch's. Lambda learns from this
/// batch's costs before it is used, the KL coefficient from this batch's KL afterwards.
/// InvalidArgument names sample (its index and group), column and token when something that the
/// estimator needs is absent, of another length, or not finite. Pure, and a pure function of the
/// order of the samples; groups need not be contiguous.
absl::StatusOr<BatchAdvantages> ComputeAdvantages(absl::Span<const Sample> samples,
                                                  const EstimatorSpec& spec,
                                                  const EstimatorState& state);

}  // namespace baton::algorithms

#endif  // BATON_CONTROLLER_ALGORITHMS_COMPUTE_ADVANTAGES_H_
