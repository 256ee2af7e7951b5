// Packed attention by the float32 CPU kernels: packed_attention_kernel.h, or the one of cached
// attention where the values have to be those that generation computes.
#ifndef BATON_WORKERS_ENGINE_MODEL_SEQUENCE_ATTENTION_H_
#define BATON_WORKERS_ENGINE_MODEL_SEQUENCE_ATTENTION_H_

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace baton::engine {

/// Whether SequenceAttention can take tensors like this one: float32 on a CPU.
bool HasSequenceKernel(const torch::Tensor& q);

/// Causal attention within sequences of `lengths`, whose sum is the number of rows, and within
/// `window` (AttentionLayer): q [N, num_heads, head_dim], k and v [N, num_kv_heads, head_dim] ->
/// [N, num_heads, head_dim]. Differentiable once. Sequences are spread over libtorch's threads;
/// results do not depend on their number.
///
/// `prompt_lengths`, if not empty, has for each sequence the number of its first tokens that are
/// its prompt. Then the result is bitwise that of CachedAttention, whose order of sums depends on
/// where the prompt ends (cached_attention.h). The backward pass is the same in both cases.
torch::Tensor SequenceAttention(const std::vector<int64_t>& lengths, int64_t window,
                                const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v,
                                const std::vector<int64_t>& prompt_lengths = {});

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_MODEL_SEQUENCE_ATTENTION_H_
