#include "controller/algorithms/loss_spec.h"

namespace baton::algorithms {
namespace {

std::vector<std::string> ColumnsOf(const LossSpec& loss) {
  std::vector<std::string> columns;
  if (loss.kind == LossSpec::kValue) {
    columns.push_back("returns");
    if (loss.cliprange_value > 0) columns.push_back("values");
    return columns;
  }
  const bool policy = loss.kind != LossSpec::kSft;
  const bool weighs_ratio = policy && loss.kind != LossSpec::kReinforce;
  if (policy) columns.push_back("advantages");
  if (weighs_ratio || !loss.rollout_is.empty()) columns.push_back("rollout_log_prob");
  if (!loss.rollout_is.empty()) columns.push_back("old_log_prob");
  if (loss.use_kl_loss) columns.push_back("ref_log_prob");
  return columns;
}

}  // namespace

LossCheck CheckLoss(absl::string_view name, const Options& options) {
  LossCheck check;
  const auto kind = LossOf(name);
  if (!kind) {
    check.problems.push_back({"", UnknownLoss(name)});
    return check;
  }
  check.loss = ReadLoss(*kind, options, check.problems);
  check.columns = ColumnsOf(check.loss);
  return check;
}

}  // namespace baton::algorithms
