// Token losses on flat rows: one row of logits per response token, no padding. Their names and
// options: sdk/common/schema/loss_options.h.
//
// Formulas; rho = exp(log_prob - old_log_prob), A the advantage, sg(x): x without gradient,
// clip(x) = clip(x, 1 - low, 1 + high):
//   sft        -log_prob
//   ppo_clip   max(-A rho, -A clip(rho)); with dual clip c, where A < 0: min(that, -A c)
//              (arXiv 1707.06347, 1912.09729; low != high: 2503.14476)
//   gspo       the same of s = sg(mean over the response's tokens of log rho) + log_prob -
//              sg(log_prob), exponentiated: one ratio for a response (2507.18071)
//   cispo      -sg(clip(rho)) A log_prob (2506.13585)
//   reinforce  -A log_prob
//   entropy    H = -sum_v p_v log p_v
//   KL         of d = log_prob - ref_log_prob by kl_loss_type (sdk/common/schema/kl_type.h)
//   total      w loss - entropy_coeff * H + kl_loss_coef * KL, all three under one aggregation,
//              + positive_nll_coef * mean of -log_prob over the tokens of positive sequences
//              + ptx_coef * the same over pretraining sequences, which have no other loss
//   w          truncated importance weight of the sampler (rollout_correction.h), a constant; the
//              distribution sampled from includes top-k and top-p
// Log-ratios are clamped to [-20, 20] before the exponential, gspo's at 10.
#ifndef BATON_WORKERS_ENGINE_LOSS_LOSS_H_
#define BATON_WORKERS_ENGINE_LOSS_LOSS_H_

#include <torch/torch.h>

#include "absl/strings/string_view.h"
#include "sdk/common/schema/loss_options.h"
#include "workers/engine/model/vocabulary_parallel.h"

namespace baton::engine {

/// [M] each, in the logits' dtype but at least float32.
struct TokenScores {
  torch::Tensor log_probs;
  torch::Tensor entropy;  ///< Undefined with kNone.
};

/// kValue computes the entropy without gradient, for a metric alone.
enum class EntropyMode { kNone, kValue, kGradient };

/// The way to score logits.
struct Scoring {
  /// With a group, logits are this rank's columns and the scores are those of the whole vocabulary
  /// (vocabulary_parallel.h).
  VocabularyShard shard;
  /// Log-probs are bitwise those of the sampler for the same logits (row_softmax.h); their
  /// gradients are those of log_softmax. Has an effect on float32 logits on a CPU without a group.
  bool as_sampled = false;
};

/// logits [M, V], targets [M] int64.
TokenScores ScoreTokens(const torch::Tensor& logits, const torch::Tensor& targets,
                        double temperature, EntropyMode entropy, const Scoring& scoring = {});

/// All [M]. `loss` alone carries a gradient.
struct PolicyTerms {
  torch::Tensor loss;
  torch::Tensor clipped;        ///< 1 where the ratio was clipped, else 0.
  torch::Tensor clipped_lower;  ///< 1 where the dual clip was taken, else 0.
  torch::Tensor kl;             ///< old - new log-prob (k1 estimate of KL(old, new)).
};

// log_probs, old_log_probs, advantages: [M] of one dtype.
PolicyTerms PpoClip(const torch::Tensor& log_probs, const torch::Tensor& old_log_probs,
                    const torch::Tensor& advantages, const LossSpec& spec);
/// sequence_log_ratios: [M] SequenceMeans of log_probs - old_log_probs.
PolicyTerms Gspo(const torch::Tensor& log_probs, const torch::Tensor& old_log_probs,
                 const torch::Tensor& sequence_log_ratios, const torch::Tensor& advantages,
                 const LossSpec& spec);
PolicyTerms Cispo(const torch::Tensor& log_probs, const torch::Tensor& old_log_probs,
                  const torch::Tensor& advantages, const LossSpec& spec);
/// old_log_probs may be undefined, then kl is zero.
PolicyTerms Reinforce(const torch::Tensor& log_probs, const torch::Tensor& old_log_probs,
                      const torch::Tensor& advantages);

/// values [M], sequences [M] int64 of at least 0. Each row gets the mean over its sequence's rows,
/// without gradient.
torch::Tensor SequenceMeans(const torch::Tensor& values, const torch::Tensor& sequences);

/// [M]; `type` is a valid kl_loss_type. Straight through: the value is that of the estimate, the
/// gradient that of k2.
torch::Tensor KlPenalty(const torch::Tensor& log_probs, const torch::Tensor& ref_log_probs,
                        absl::string_view type);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_LOSS_LOSS_H_
