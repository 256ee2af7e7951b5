#include "sdk/common/schema/kl_type.h"

#include "absl/strings/strip.h"

namespace baton {
namespace {

std::optional<KlType::Estimate> ParseEstimate(absl::string_view name) {
  if (name == "k1" || name == "kl") return KlType::kK1;
  if (name == "abs") return KlType::kAbs;
  if (name == "k2" || name == "mse") return KlType::kK2;
  if (name == "k3" || name == "low_var_kl") return KlType::kK3;
  return std::nullopt;
}

}  // namespace

std::optional<KlType> ParseKlType(absl::string_view name) {
  KlType type;
  type.straight_through = absl::ConsumeSuffix(&name, "+");
  const auto estimate = ParseEstimate(name);
  if (!estimate) return std::nullopt;
  type.estimate = *estimate;
  // The value of `abs` or k2 with the gradient of k2 has no use.
  const bool may = type.estimate == KlType::kK1 || type.estimate == KlType::kK3;
  if (type.straight_through && !may) return std::nullopt;
  return type;
}

}  // namespace baton
