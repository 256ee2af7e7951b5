#include "controller/algorithms/loss_spec.h"

#include "absl/strings/str_cat.h"

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
  const bool corrects = !RolloutCorrections(loss).empty();
  if (weighs_ratio || corrects) columns.push_back("rollout_log_prob");
  if (corrects) columns.push_back("old_log_prob");
  if (loss.use_kl_loss) columns.push_back("ref_log_prob");
  return columns;
}

/// Options that are given and do nothing, because the option that they belong to is not given.
void CheckEffect(const Options& options, std::vector<OptionProblem>& problems) {
  constexpr struct {
    absl::string_view name, owner, values;
  } kBelongs[] = {
      {"rollout_is_threshold", "rollout_is", "token or sequence"},
      {"rollout_is_batch_normalize", "rollout_is", "token or sequence"},
      {"rollout_rs_threshold", "rollout_rs",
       "token, sequence, geometric, token_k3, seq_mean_k3 or seq_max_k3"},
      {"rollout_rs_threshold_lower", "rollout_rs", "token, sequence or geometric"},
  };
  for (const auto& [name, owner, values] : kBelongs) {
    const auto given = options.find(std::string(name));
    if (given == options.end() || given->second == OptionValue(false)) continue;
    if (options.count(std::string(owner)) > 0) continue;
    problems.push_back(
        {std::string(name), absl::StrCat("has no effect without ", owner, "; give ", owner, ": ",
                                         values, ", or leave out ", name)});
  }
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
  if (*kind != LossSpec::kSft && *kind != LossSpec::kValue) CheckEffect(options, check.problems);
  check.columns = ColumnsOf(check.loss);
  return check;
}

}  // namespace baton::algorithms
