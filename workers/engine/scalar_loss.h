// Losses of a model with a scalar head, on flat rows.
//
//   value       max((V - R)^2, (clip(V, V_old - c, V_old + c) - R)^2) / 2        (PPO, as verl)
//   preference  -log sigmoid(r_chosen - r_rejected)                             (Bradley-Terry)
#ifndef BATON_WORKERS_ENGINE_SCALAR_LOSS_H_
#define BATON_WORKERS_ENGINE_SCALAR_LOSS_H_

#include <torch/torch.h>

#include <string>

#include "absl/status/status.h"

namespace baton::engine {

struct ValueLossSpec {
  /// How far one update may move a value from what it was; 0: as far as it likes.
  double cliprange_value = 0.5;
  std::string loss_agg_mode = "token-mean";  ///< aggregation.h.
  /// The constant of seq-mean-token-sum-norm; 0: the longest response of the mini-batch.
  double loss_scale_factor = 0;
};

/// InvalidArgument listing every value that is out of bounds.
[[nodiscard]] absl::Status Validate(const ValueLossSpec& spec);

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

#endif  // BATON_WORKERS_ENGINE_SCALAR_LOSS_H_
