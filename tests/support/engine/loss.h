// Small tensors of doubles for the tests of losses.
#ifndef BATON_TESTS_SUPPORT_ENGINE_LOSS_H_
#define BATON_TESTS_SUPPORT_ENGINE_LOSS_H_

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace baton::engine {

inline torch::Tensor Doubles(const std::vector<double>& v) {
  return torch::tensor(at::ArrayRef<double>(v), torch::kFloat64);
}

inline double Item(const torch::Tensor& t, int64_t i = 0) { return t.flatten()[i].item<double>(); }

}  // namespace baton::engine

#endif  // BATON_TESTS_SUPPORT_ENGINE_LOSS_H_
