// The float32 kernel of cached attention on a CPU. See cached_attention.h for the layout of blocks.
#ifndef BATON_WORKERS_ENGINE_KERNELS_CACHED_ATTENTION_KERNEL_H_
#define BATON_WORKERS_ENGINE_KERNELS_CACHED_ATTENTION_KERNEL_H_

#include <cstdint>

namespace baton::engine {

/// Shapes and base addresses that all rows of a layer have in common.
struct KernelLayer {
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  float scale = 0;
  int64_t window = 0;       // a row attends to so many of its last tokens; 0: to all
  float* keys = nullptr;    // [blocks, num_kv_heads, head_dim, 16]
  float* values = nullptr;  // [blocks, num_kv_heads, 16, head_dim]
};

/// One row: the tokens that it attends to without a window (its own is the last), and its query,
/// key and value.
struct KernelRow {
  const int32_t* prompt_blocks = nullptr;
  int64_t prompt_tokens = 0;  // attended to, in prompt_blocks
  const int32_t* own_blocks = nullptr;
  int64_t own_tokens = 0;
  // The first of own_tokens lie in own_blocks: all, or a multiple of 16. Each other one lies at
  // scattered[i] = block * 16 + offset. The result has the same bits wherever the tokens lie.
  int64_t own_in_place = 0;
  const int64_t* scattered = nullptr;
  const float* query = nullptr;  // head h at query + h * query_stride
  int64_t query_stride = 0;
  const float* key = nullptr;  // likewise
  int64_t key_stride = 0;
  const float* value = nullptr;  // likewise
  int64_t value_stride = 0;
  int32_t block = 0;  // where key and value are stored
  int64_t offset = 0;
  float* out = nullptr;      // [num_heads, head_dim]
  float* lse = nullptr;      // [num_heads]: log of the sum of exp(scale * query keys^T), or null
  float* scratch = nullptr;  // ScratchFloats() floats
};

/// Floats of scratch that AttendRow needs for a row.
int64_t ScratchFloats(const KernelLayer& layer, const KernelRow& row);

/// Stores the row's key and value at `offset` (0 to 15) of `block`.
void StoreRow(const KernelLayer& layer, const KernelRow& row);

/// Asks the processor to fetch what AttendRow will read of the cache, or the first part of it.
/// Decoding reads each sequence's blocks once a step, in no order that a processor would foresee.
void PrefetchRow(const KernelLayer& layer, const KernelRow& row);

/// out = softmax(scale * query keys^T) values for every head. Sums run in the order of tokens.
void AttendRow(const KernelLayer& layer, const KernelRow& row);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_KERNELS_CACHED_ATTENTION_KERNEL_H_
