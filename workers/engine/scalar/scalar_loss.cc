#include "workers/engine/scalar/scalar_loss.h"

namespace baton::engine {

ValueTerms ValueLoss(const torch::Tensor& values, const torch::Tensor& old_values,
                     const torch::Tensor& returns, double cliprange) {
  const torch::Tensor plain = (values - returns).square();
  if (cliprange == 0) return {0.5 * plain, torch::zeros_like(returns)};
  const torch::Tensor near =
      torch::minimum(torch::maximum(values, old_values - cliprange), old_values + cliprange);
  const torch::Tensor clipped = (near - returns).square();
  return {0.5 * torch::maximum(plain, clipped), (clipped > plain).to(returns.scalar_type())};
}

torch::Tensor PreferenceLoss(const torch::Tensor& chosen, const torch::Tensor& rejected) {
  return torch::log_sigmoid(chosen - rejected).neg();
}

}  // namespace baton::engine
