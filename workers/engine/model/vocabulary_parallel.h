// Log-probs and entropy of tokens from logits whose vocabulary is divided among ranks: only
// numbers per row travel, never logits.
//
// With x the scaled logits, m = max x, s = sum exp(x - m), lse = m + log s, p = exp(x - lse):
//   log_prob(t) = x_t - lse                  d/dx_v = [v = t] - p_v
//   H = lse - sum_v p_v x_v                  d/dx_v = -p_v (log p_v + H)
// m, s, x_t and sum_v exp(x_v - m) (x_v - m) are reduced over the ranks; gradients need nothing.
#ifndef BATON_WORKERS_ENGINE_MODEL_VOCABULARY_PARALLEL_H_
#define BATON_WORKERS_ENGINE_MODEL_VOCABULARY_PARALLEL_H_

#include <torch/torch.h>

#include <cstdint>

#include "workers/engine/model/communicator.h"

namespace baton::engine {

/// The columns that a rank's logits are.
struct VocabularyShard {
  Communicator* group = nullptr;  ///< Null: the whole vocabulary.
  int64_t begin = 0;              ///< Id of the first column.
};

/// [M] each, the same on every rank.
struct ParallelScores {
  torch::Tensor log_probs;
  torch::Tensor entropy;
};

/// scaled [M, columns of this rank] in float32 or float64, targets [M] ids of the whole
/// vocabulary. Differentiable once; `entropy` carries a gradient if `entropy_gradient`.
ParallelScores ScoreShardedTokens(const torch::Tensor& scaled, const torch::Tensor& targets,
                                  const VocabularyShard& shard, bool entropy_gradient);

/// [M] bool, the same on every rank: no logit of the whole vocabulary is larger than the target's.
/// Without gradients. `shard.group` null: `logits` [M, V] are all there are.
torch::Tensor IsLargest(const torch::Tensor& logits, const torch::Tensor& targets,
                        const VocabularyShard& shard);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_MODEL_VOCABULARY_PARALLEL_H_
