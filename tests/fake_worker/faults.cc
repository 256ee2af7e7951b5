#include "tests/fake_worker/faults.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace baton::fake {

absl::StatusOr<Fault> ParseFault(Fault::Kind kind, absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  Fault fault;
  fault.kind = kind;
  if (parts.size() != 2 || parts[0].empty() || !absl::SimpleAtoi(parts[1], &fault.nth) ||
      fault.nth < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not METHOD:N, e.g. generate:3"));
  }
  fault.method = parts[0];
  return fault;
}

Fault::Kind FaultPlan::Count(const std::string& method) {
  absl::MutexLock lock(&mu_);
  const int nth = ++counts_[method];
  for (const Fault& fault : faults_) {
    if (fault.method == method && fault.nth == nth) return fault.kind;
  }
  return Fault::Kind::kNone;
}

int FaultPlan::count(const std::string& method) const {
  absl::MutexLock lock(&mu_);
  const auto it = counts_.find(method);
  return it == counts_.end() ? 0 : it->second;
}

}  // namespace baton::fake
