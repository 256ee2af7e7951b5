// Bytes of tensors in this process's main memory, as libtorch's allocator hands them out.
#ifndef BATON_BENCH_ENGINE_TENSOR_MEMORY_H_
#define BATON_BENCH_ENGINE_TENSOR_MEMORY_H_

#include <cstdint>

namespace baton::bench {

/// Counts from now on, in any thread. Once, before the first tensor; it stays until the end.
void CountTensorMemory();

/// Held now.
int64_t TensorBytes();

/// The most that was held since the last call of ResetPeakTensorBytes.
int64_t PeakTensorBytes();
void ResetPeakTensorBytes();

}  // namespace baton::bench

#endif  // BATON_BENCH_ENGINE_TENSOR_MEMORY_H_
