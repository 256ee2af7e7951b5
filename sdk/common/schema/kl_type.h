// Estimates of a KL divergence from one token, by the names that users know.
//
// With d = log-prob of the policy - log-prob of the reference (joschu.net/blog/kl-approx.html):
//   k1, also kl           d
//   abs                   |d|
//   k2, also mse          d^2 / 2
//   k3, also low_var_kl   exp(-d) + d - 1, with d within [-20, 20], and at most 10
// As a term of a loss k1+ and k3+ (kl+, low_var_kl+) have their value and the gradient of k2: the
// gradient of k2 alone is, on the policy's own tokens, in expectation the KL's. That of k1 is 0 in
// expectation, whatever the KL.
#ifndef BATON_SDK_COMMON_SCHEMA_KL_TYPE_H_
#define BATON_SDK_COMMON_SCHEMA_KL_TYPE_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace baton {

struct KlType {
  enum Estimate { kK1, kAbs, kK2, kK3 };
  Estimate estimate = kK3;
  bool straight_through = false;  ///< The gradient is k2's.
};

/// nullopt for an unknown name. LossOptions.kl_loss_type (job_spec.proto) lists them.
std::optional<KlType> ParseKlType(absl::string_view name);

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_KL_TYPE_H_
