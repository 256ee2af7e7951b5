// Token losses on flat rows: one row of logits per response token, no padding.
//
// Formulas (PAPERS.md §4); rho = exp(log_prob - old_log_prob), A the advantage:
//   SFT         -log_prob
//   PPO-clip    max(-A rho, -A clip(rho, 1 - low, 1 + high)); with dual clip c, where A < 0:
//               min(that, -A c)
//   entropy     H = -sum_v p_v log p_v
//   KL          d = log_prob - ref_log_prob;  k1: d   k2: d^2 / 2   k3: exp(-d) + d - 1
//   total       loss - entropy_coeff * H + kl_loss_coef * KL, all three under one aggregation.
// Log-ratios are clamped to [-20, 20] before the exponential.
#ifndef BATON_WORKERS_ENGINE_LOSS_H_
#define BATON_WORKERS_ENGINE_LOSS_H_

#include <torch/torch.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "workers/engine/vocabulary_parallel.h"

namespace baton::engine {

struct LossSpec {
  enum Kind { kSft, kPpoClip };
  Kind kind = kSft;
  double clip_ratio_low = 0.2;               ///< In [0, 1].
  double clip_ratio_high = 0.2;              ///< At least 0.
  double clip_ratio_c = 0;                   ///< Dual clip, above 1; 0 turns it off.
  std::string loss_agg_mode = "token-mean";  ///< aggregation.h.
  /// The constant of seq-mean-token-sum-norm; 0: the longest response of the mini-batch.
  double loss_scale_factor = 0;
  double entropy_coeff = 0;
  bool use_kl_loss = false;  ///< Needs ref_log_probs.
  double kl_loss_coef = 0.001;
  std::string kl_loss_type = "k3";  ///< "k1", "k2" or "k3".
  double temperature = 1;           ///< The policy is softmax(logits / temperature).
};

/// InvalidArgument listing every value that is out of bounds.
[[nodiscard]] absl::Status Validate(const LossSpec& spec);

/// [M] each, in the logits' dtype but at least float32.
struct TokenScores {
  torch::Tensor log_probs;
  torch::Tensor entropy;  ///< Undefined with kNone.
};

/// kValue computes the entropy without gradient, for a metric alone.
enum class EntropyMode { kNone, kValue, kGradient };

/// logits [M, V], targets [M] int64. With a shard, logits are this rank's columns and the scores
/// are those of the whole vocabulary (vocabulary_parallel.h).
TokenScores ScoreTokens(const torch::Tensor& logits, const torch::Tensor& targets,
                        double temperature, EntropyMode entropy, const VocabularyShard& shard = {});

/// All [M]. `loss` alone carries a gradient.
struct PpoClipTerms {
  torch::Tensor loss;
  torch::Tensor clipped;        ///< 1 where the clipped branch was taken, else 0.
  torch::Tensor clipped_lower;  ///< 1 where the dual clip was taken, else 0.
  torch::Tensor kl;             ///< old - new log-prob (k1 estimate of KL(old, new)).
};

/// log_probs, old_log_probs, advantages: [M] of one dtype.
PpoClipTerms PpoClip(const torch::Tensor& log_probs, const torch::Tensor& old_log_probs,
                     const torch::Tensor& advantages, const LossSpec& spec);

/// [M]; `type` is a valid kl_loss_type.
torch::Tensor KlPenalty(const torch::Tensor& log_probs, const torch::Tensor& ref_log_probs,
                        absl::string_view type);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_LOSS_H_
