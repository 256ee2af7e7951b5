// The float32 kernel of attention over whole sequences on a CPU, forward and backward.
//
// Each sequence is computed alone and in one order: results do not depend on the batch. Memory
// grows with a sequence's length and not with its square: the backward pass computes the
// probabilities again from the saved logarithm of each row's sum (Dao et al., FlashAttention,
// 2022).
#ifndef BATON_WORKERS_ENGINE_KERNELS_PACKED_ATTENTION_KERNEL_H_
#define BATON_WORKERS_ENGINE_KERNELS_PACKED_ATTENTION_KERNEL_H_

#include <cstdint>

namespace baton::engine::kernels {

struct AttentionShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;  ///< Divides heads.
  int64_t dim = 0;
  float scale = 0;
  int64_t window = 0;  ///< Keys that a query looks at, its own included; 0: all up to it.
};

/// Rows of one tensor at the sequence's first token. Heads are `dim` floats apart.
struct ConstRows {
  const float* data = nullptr;
  int64_t stride = 0;  ///< Floats from one token to the next.
};
struct Rows {
  float* data = nullptr;
  int64_t stride = 0;
};

/// out = softmax(scale q k^T, causal and within the window) v; lse [length, heads]: log of each
/// row's sum of exp(scale q k^T).
struct AttentionForward {
  int64_t length = 0;
  ConstRows q, k, v;
  Rows out;
  float* lse = nullptr;
};

/// Given d out, writes dq, dk and dv. out and lse are the forward pass's.
struct AttentionBackward {
  int64_t length = 0;
  ConstRows q, k, v, out, dout;
  const float* lse = nullptr;
  Rows dq, dk, dv;
};

/// Floats of scratch that either pass needs for a sequence of this length.
int64_t AttentionScratchFloats(const AttentionShape& shape, int64_t length);

void AttendSequence(const AttentionShape& shape, const AttentionForward& pass, float* scratch);
void AttendSequenceBackward(const AttentionShape& shape, const AttentionBackward& pass,
                            float* scratch);

}  // namespace baton::engine::kernels

#endif  // BATON_WORKERS_ENGINE_KERNELS_PACKED_ATTENTION_KERNEL_H_
