#include "sdk/base/kl_type.h"

#include <algorithm>

#include "absl/strings/strip.h"

namespace baton {

std::optional<KlType> ParseKlType(absl::string_view name) {
  const auto& names = KlLossNames();
  if (std::find(names.begin(), names.end(), name) == names.end()) return std::nullopt;
  KlType type;
  type.straight_through = absl::ConsumeSuffix(&name, "+");
  type.estimate = name == "k1" || name == "kl"    ? KlType::kK1
                  : name == "abs"                 ? KlType::kAbs
                  : name == "k2" || name == "mse" ? KlType::kK2
                                                  : KlType::kK3;
  return type;
}

const std::vector<absl::string_view>& KlEstimateNames() {
  static const auto* const kNames =
      new std::vector<absl::string_view>{"k1", "k2", "k3", "abs", "kl", "mse", "low_var_kl"};
  return *kNames;
}

const std::vector<absl::string_view>& KlLossNames() {
  static const auto* const kNames = [] {
    auto* names = new std::vector<absl::string_view>(KlEstimateNames());
    names->insert(names->end(), {"k1+", "k3+", "kl+", "low_var_kl+"});
    return names;
  }();
  return *kNames;
}

}  // namespace baton
