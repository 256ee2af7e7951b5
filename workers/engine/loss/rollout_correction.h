// The correction of an update for the distance between the policy that generated a batch and the
// policy that learns from it: other kernels, another dtype, or older weights (asynchronous
// training).
//
// Three policies (decoupled PPO: arXiv 2110.00641, AReaL 2505.24298): the behaviour policy, which
// the tokens were sampled from; the proximal policy, which the actor computed again before the
// update (old_log_probs), and from which PPO's ratio departs; and the policy that learns. The loss
// of a token is weighted by proximal / behaviour, or the token is rejected. Both are constants of
// the update: they are computed once for the whole batch, before its first optimizer step.
//
// Formulas; d_t = old_log_prob - behaviour_log_prob of an unmasked token, S the sum and M the mean
// of d_t over the unmasked tokens of its sequence, k3(d) = exp(d) - d - 1:
//   rollout_is  token: r = exp(d_t); sequence: r = exp(S), the same for each token
//               weight min(r, rollout_is_threshold); with rollout_is_batch_normalize divided by its
//               mean over the batch's tokens (token) or its sequences (sequence)
//   rollout_rs  keeps a token where lower <= x <= upper, x being
//               token: exp(d_t); sequence: exp(S); geometric: exp(M)
//               and where x <= upper, x being
//               token_k3: k3(d_t); seq_mean_k3: the mean of k3(d_t); seq_max_k3: its maximum
//   veto        keeps no token of a sequence with an exp(d_t) < rollout_token_veto_threshold
// d_t, S and M are bounded to [-20, 20] for weights, divergences and metrics; bounds of ratios are
// compared in logarithms, without that bound. As in verl's rollout correction
// (docs/algo/rollout_corr.md of github.com/volcengine/verl) weights and their mean are of all
// unmasked tokens, whether kept or not; rejected tokens count as masked in the loss. verl 0.7 and
// later have the names rollout_is, rollout_is_threshold, rollout_is_batch_normalize, rollout_rs,
// rollout_rs_threshold, token_k3, seq_mean_k3 and seq_max_k3. Only verl before 0.7 has token,
// sequence and geometric (later token_k1, seq_sum_k1 and seq_mean_k1, of the inverse ratio),
// rollout_rs_threshold_lower, rollout_token_veto_threshold and its metrics, and the metrics
// rollout_rs_{mean, max, min} without the name of the criterion.
#ifndef BATON_WORKERS_ENGINE_LOSS_ROLLOUT_CORRECTION_H_
#define BATON_WORKERS_ENGINE_LOSS_ROLLOUT_CORRECTION_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "sdk/common/schema/loss_options.h"
#include "workers/engine/loss/micro_batch.h"
#include "workers/engine/loss/rank_agreement.h"

namespace baton::engine {

/// The correction of the response tokens of one sequence: [R] each. Both are empty for pretraining
/// text and for sequences that others train on.
struct SequenceCorrection {
  std::vector<double> weights;  ///< Weights in the policy loss; empty: all 1. 0 at masked tokens.
  std::vector<uint8_t> kept;    ///< 0: masked or rejected. Empty: as the loss mask.
};

struct RolloutCorrection {
  std::vector<SequenceCorrection> sequences;  ///< [B], as the batch; empty: nothing is corrected.
  /// [B]: unmasked tokens that are kept, of remote sequences too: the aggregation weights of the
  /// loss depend on them. For pretraining text: all.
  std::vector<int64_t> counts;
  /// rollout_corr/, over the batch:
  ///   with rollout_is rollout_is_{mean, std, max, min, ratio_fraction_high, ratio_fraction_low,
  ///     truncated, eff_sample_size}, and with rollout_is_batch_normalize
  ///     rollout_is_batch_norm_factor
  ///   with rollout_rs rollout_rs_{mean, max, min} of x, over tokens and before anything is
  ///     rejected, and rollout_rs_{masked_fraction, seq_masked_fraction}
  ///   with a veto rollout_is_{veto_fraction, catastrophic_token_fraction}
  std::map<std::string, double> metrics;
};

/// `share`: the sequences that this rank trains on; their columns are valid (ValidateLossColumns).
/// All data ranks make the same call, each with its share; counts and metrics are bitwise the same
/// on all of them, for any number of ranks. Nothing is sent where no option of RolloutCorrections
/// is on: the answer is empty. Collective; errors are those of the exchange. Does not throw.
absl::StatusOr<RolloutCorrection> CorrectRollout(absl::Span<const TrainSequence> batch,
                                                 absl::Span<const int64_t> share,
                                                 const LossSpec& loss, RankAgreement& ranks);

/// Takes the predictions of rejected tokens out of `packed`, whose sequence_index counts from the
/// first of `sequences`. Its input rows stay.
void DropRejected(absl::Span<const SequenceCorrection> sequences, PackedRows& packed);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_LOSS_ROLLOUT_CORRECTION_H_
