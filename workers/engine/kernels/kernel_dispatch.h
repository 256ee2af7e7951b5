// The choice between the CPU kernels of row_kernels.h and libtorch's operators.
#ifndef BATON_WORKERS_ENGINE_KERNELS_KERNEL_DISPATCH_H_
#define BATON_WORKERS_ENGINE_KERNELS_KERNEL_DISPATCH_H_

#include <torch/torch.h>

namespace baton::engine {

/// Whether the kernels can take x once it is contiguous: float32 or float64 on a CPU.
inline bool HasKernel(const torch::Tensor& x) {
  return x.device().is_cpu() &&
         (x.scalar_type() == torch::kFloat32 || x.scalar_type() == torch::kFloat64);
}

/// Whether the kernels can take x once it is float32: a narrower type on a CPU. libtorch's
/// operators for such types sum in an order that depends on the number of rows.
inline bool HasWideKernel(const torch::Tensor& x) {
  return x.device().is_cpu() &&
         (x.scalar_type() == torch::kBFloat16 || x.scalar_type() == torch::kHalf);
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

#endif  // BATON_WORKERS_ENGINE_KERNELS_KERNEL_DISPATCH_H_
