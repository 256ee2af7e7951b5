#include "workers/engine/scalar_loss.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "workers/engine/aggregation.h"

namespace baton::engine {

absl::Status Validate(const ValueLossSpec& spec) {
  std::vector<std::string> faults;
  if (!(std::isfinite(spec.cliprange_value) && spec.cliprange_value >= 0)) {
    faults.push_back(absl::StrCat("cliprange_value: ", spec.cliprange_value,
                                  " is not a finite number of at least 0"));
  }
  if (!(std::isfinite(spec.loss_scale_factor) && spec.loss_scale_factor >= 0)) {
    faults.push_back(absl::StrCat("loss_scale_factor: ", spec.loss_scale_factor,
                                  " is not a finite number of at least 0"));
  }
  const auto aggregation = ParseLossAggregation(spec.loss_agg_mode);
  if (!aggregation.ok()) faults.push_back(std::string(aggregation.status().message()));
  return faults.empty() ? absl::OkStatus()
                        : absl::InvalidArgumentError(absl::StrJoin(faults, "; "));
}

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
