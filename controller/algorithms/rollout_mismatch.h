// Distance between the policy that generated a batch and the policy that learns from it.
#ifndef BATON_CONTROLLER_ALGORITHMS_ROLLOUT_MISMATCH_H_
#define BATON_CONTROLLER_ALGORITHMS_ROLLOUT_MISMATCH_H_

#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "controller/algorithms/sample.h"

namespace baton::algorithms {

/// Adds metrics of rollout_corr/ for the kept samples that have log-probs of the rollout beside
/// those computed again; where there are none it adds nothing. Names and formulas are verl's
/// (rollout_corr_helper.py of github.com/volcengine/verl), the first two are Baton's. With d =
/// recomputed - rollout log-prob of an unmasked token, and for a sequence P and Q the means of its
/// recomputed and of its rollout log-probs; means over tokens (t) or sequences (s):
///   log_prob_abs_diff   mean_t |d|
///   log_prob_diff_max   the highest |d|
///   kl                  mean_t -d: k1, an estimate of KL(rollout, actor) from the rollout's tokens
///   k3_kl               mean_t exp(d) - d - 1: k3 (Schulman 2020, joschu.net/blog/kl-approx.html)
///   training_ppl        mean_s exp(-P);  training_log_ppl: mean_s -P
///   rollout_ppl         mean_s exp(-Q);  rollout_log_ppl: mean_s -Q
///   log_ppl_diff        mean_s Q - P;    log_ppl_abs_diff, log_ppl_diff_max, log_ppl_diff_min
///   ppl_ratio           mean_s exp(Q - P)
///   chi2_token          mean_t exp(d)^2 - 1, chi-squared divergence of the actor from the rollout
///   chi2_seq            mean_s exp(sum of d)^2 - 1
/// Exponents are bounded: perplexities, d and the sum of d at 20, and below at -20. `kept`: as
/// BatchAdvantages.kept. Columns have the length of their sample.
void AddRolloutMismatch(absl::Span<const Sample> samples, const std::vector<bool>& kept,
                        std::map<std::string, double>& metrics);

}  // namespace baton::algorithms

#endif  // BATON_CONTROLLER_ALGORITHMS_ROLLOUT_MISMATCH_H_
