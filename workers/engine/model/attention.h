// Attention over whole sequences laid one after the other in the rows: training and scoring.
#ifndef BATON_WORKERS_ENGINE_MODEL_ATTENTION_H_
#define BATON_WORKERS_ENGINE_MODEL_ATTENTION_H_

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "workers/engine/model/model.h"

namespace baton::engine {

struct PackedLayout;

struct PackedAttentionOptions {
  /// Each sequence alone, in order: a row's result then does not depend on the batch. (Always so in
  /// float32 on a CPU.)
  bool deterministic = false;
  /// Attention probabilities kept for the backward pass per layer and bucket, in elements; above
  /// it they are computed again (one more product) in blocks of queries.
  int64_t max_saved_elements = int64_t{1} << 26;
  /// For each sequence the number of its first tokens that are its prompt; or empty. If given, the
  /// result in float32 on a CPU is bitwise what generation computes (sequence_attention.h).
  std::vector<int64_t> prompt_lengths = {};
};

/// Causal attention within sequences of `lengths`, which lie one after the other in the N rows (N =
/// their sum); any layer, with a window or without. In float32 on a CPU each sequence is computed
/// alone by a kernel of its own (sequence_attention.h). Elsewhere sequences of similar length are
/// padded to a common one and computed as batched products. Differentiable once (no double
/// backward). May be used for any number of layers and passes, on any device; one thread at a time.
class PackedCausalAttention : public AttentionContext {
 public:
  /// Every length must be at least 1.
  explicit PackedCausalAttention(std::vector<int64_t> lengths, PackedAttentionOptions options = {});
  ~PackedCausalAttention() override;

  torch::Tensor Attend(const AttentionLayer& layer, const torch::Tensor& q, const torch::Tensor& k,
                       const torch::Tensor& v) override;

  /// Positions of the rows, 0..length-1 for each sequence: [N] int64 on the CPU.
  torch::Tensor Positions() const;

 private:
  std::vector<int64_t> lengths_;
  PackedAttentionOptions options_;
  int64_t num_rows_ = 0;
  /// The rows that are computed together; made for the first heads and device seen.
  c10::intrusive_ptr<PackedLayout> layout_;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_MODEL_ATTENTION_H_
