// Packed attention by the float32 CPU kernel (packed_attention_kernel.h).
#ifndef BATON_WORKERS_ENGINE_SEQUENCE_ATTENTION_H_
#define BATON_WORKERS_ENGINE_SEQUENCE_ATTENTION_H_

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace baton::engine {

/// Whether SequenceAttention can take tensors like this one: float32 on a CPU.
bool HasSequenceKernel(const torch::Tensor& q);

/// Causal attention within sequences of `lengths`, whose sum is the number of rows: q [N,
/// num_heads, head_dim], k and v [N, num_kv_heads, head_dim] -> [N, num_heads, head_dim].
/// Differentiable once. Sequences are spread over libtorch's threads; results do not depend on
/// their number.
torch::Tensor SequenceAttention(const std::vector<int64_t>& lengths, const torch::Tensor& q,
                                const torch::Tensor& k, const torch::Tensor& v);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_SEQUENCE_ATTENTION_H_
