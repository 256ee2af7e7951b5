// Losses of a model with a scalar head, on flat rows.
//
//   value       max((V - R)^2, (clip(V, V_old - c, V_old + c) - R)^2) / 2        (PPO, as verl)
//   preference  -log sigmoid(r_chosen - r_rejected)                             (Bradley-Terry)
#ifndef BATON_WORKERS_ENGINE_SCALAR_SCALAR_LOSS_H_
#define BATON_WORKERS_ENGINE_SCALAR_SCALAR_LOSS_H_

#include <torch/torch.h>

namespace baton::engine {

/// [M] each. `loss` alone carries a gradient.
struct ValueTerms {
  torch::Tensor loss;
  torch::Tensor clipped;  ///< 1 where the clipped branch was taken, else 0.
};

/// values, old_values, returns: [M] of one dtype. With `cliprange` 0 old_values is not looked at.
ValueTerms ValueLoss(const torch::Tensor& values, const torch::Tensor& old_values,
                     const torch::Tensor& returns, double cliprange);

/// chosen, rejected: [P] scores. Returns [P].
torch::Tensor PreferenceLoss(const torch::Tensor& chosen, const torch::Tensor& rejected);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_SCALAR_SCALAR_LOSS_H_
