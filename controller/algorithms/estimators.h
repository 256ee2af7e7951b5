// The estimators themselves: from rewards to advantages and returns. Pure functions; whitening and
// everything around them is in compute_advantages.h.
//
//   r_t: the reward at token t (ShapedRewards);  R: their sum over a response;  V_t: the critic's
//   value before token t, 0 after the last. Masked tokens are skipped: the sums run over the
//   others.
//
//   gae (arXiv 1506.02438)   delta_t = r_t + gamma V_{t+1} - V_t
//                            A_t = sum_l (gamma lam)^l delta_{t+l};  return_t = A_t + V_t, the
//                            latter with critic_lam (VAPO, arXiv 2504.05118: decoupled)
//   grpo (2402.03300)        (R - mean) / (std + epsilon) in the group, std with n - 1
//   dr_grpo (2503.20783)     R - mean
//   rloo (2402.14740)        R - mean of the others
//   reinforce_plus_plus (2501.03262)           G_t = sum_l gamma^l r_{t+l}
//   reinforce_plus_plus_baseline (same)        R - mean
//   remax (2310.10505)       sum_{l >= 0} r_{t+l} - R of the greedy response
//   given                    what a user's method made of the response, or of each token
// A group of one has nothing to compare with: its advantage is R. Equal rewards give exactly 0.
#ifndef BATON_CONTROLLER_ALGORITHMS_ESTIMATORS_H_
#define BATON_CONTROLLER_ALGORITHMS_ESTIMATORS_H_

#include <vector>

#include "absl/types/span.h"
#include "controller/algorithms/estimator_spec.h"
#include "controller/algorithms/reward_shaping.h"
#include "controller/algorithms/sample.h"

namespace baton::algorithms {

/// Per token: flat arrays with 0 at masked tokens. Else one advantage per sample and no returns.
struct Estimate {
  bool per_token = false;
  std::vector<double> advantages;
  std::vector<double> returns;
};

/// The signal whose critic's values gae subtracts.
enum class Signal { kReward, kCost };

/// `estimator` decides, not spec.estimator. Spans that it needs are [length] in every sample.
Estimate RunEstimator(Estimator estimator, absl::Span<const Sample> samples,
                      absl::Span<const size_t> offsets, const ShapedRewards& rewards, Signal signal,
                      const EstimatorSpec& spec);

/// The policy's lambda for a response: lam, or the length-adaptive one.
double PolicyLambda(const EstimatorSpec& spec, size_t unmasked_tokens);

}  // namespace baton::algorithms

#endif  // BATON_CONTROLLER_ALGORITHMS_ESTIMATORS_H_
