// Choosing between the CPU kernels of row_kernels.h and libtorch's operators.
#ifndef BATON_WORKERS_ENGINE_KERNEL_DISPATCH_H_
#define BATON_WORKERS_ENGINE_KERNEL_DISPATCH_H_

#include <torch/torch.h>

namespace baton::engine {

/// Whether the kernels can take x once it is contiguous: float32 or float64 on a CPU.
inline bool HasKernel(const torch::Tensor& x) {
  return x.device().is_cpu() &&
         (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64);
}

/// Calls f(T{}) with T the element type of x, float or double.
template <typename F>
void ForType(const torch::Tensor& x, const F& f) {
  if (x.scalar_type() == torch::kFloat32) {
    f(float{});
  } else {
    f(double{});
  }
}

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_KERNEL_DISPATCH_H_
