#include "controller/algorithms/loss_spec.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/base/kl_type.h"

namespace baton::algorithms {
namespace {

enum Loss : uint32_t {
  kSft = 1,
  kPpoClip = 2,
  kGspo = 4,
  kCispo = 8,
  kReinforce = 16,
  kValue = 32
};
constexpr uint32_t kPolicy = kPpoClip | kGspo | kCispo | kReinforce;
constexpr uint32_t kClipped = kPpoClip | kGspo | kCispo;

const std::vector<std::pair<absl::string_view, Loss>>& Losses() {
  static const auto* const kLosses = new std::vector<std::pair<absl::string_view, Loss>>{
      {"sft", kSft},     {"ppo_clip", kPpoClip},    {"gspo", kGspo},
      {"cispo", kCispo}, {"reinforce", kReinforce}, {"value", kValue}};
  return *kLosses;
}

const std::vector<OptionField<LossOptions>>& LossFields() {
  using S = LossOptions;
  constexpr uint32_t kActor = kSft | kPolicy;
  const Bounds unit{0, 1}, positive{0, Bounds().high, true}, natural{0}, any;
  static const auto* const kTable = new std::vector<OptionField<LossOptions>>{
      {"clip_ratio_low", kClipped, &S::clip_ratio_low, unit},
      {"clip_ratio_high", kClipped, &S::clip_ratio_high, natural},
      {"clip_ratio_c", kPpoClip, &S::clip_ratio_c, natural},
      {"loss_agg_mode",
       kActor | kValue,
       &S::loss_agg_mode,
       any,
       {"token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"}},
      {"loss_scale_factor", kActor | kValue, &S::loss_scale_factor, natural},
      {"entropy_coeff", kActor, &S::entropy_coeff},
      {"use_kl_loss", kActor, &S::use_kl_loss},
      {"kl_loss_coef", kActor, &S::kl_loss_coef},
      {"kl_loss_type", kActor, &S::kl_loss_type, any, KlLossNames()},
      {"temperature", kActor, &S::temperature, positive},
      {"rollout_is", kPolicy, &S::rollout_is, any, {"token", "sequence"}},
      {"rollout_is_threshold", kPolicy, &S::rollout_is_threshold, positive},
      {"positive_nll_coef", kPolicy, &S::positive_nll_coef, natural},
      {"ptx_coef", kPolicy, &S::ptx_coef, natural},
      {"cliprange_value", kValue, &S::cliprange_value, natural},
  };
  return *kTable;
}

/// 0 for a name that is none of them.
uint32_t Find(absl::string_view name) {
  for (const auto& [known, loss] : Losses()) {
    if (known == name) return loss;
  }
  return 0;
}

std::vector<std::string> ColumnsOf(uint32_t loss, const LossOptions& options) {
  std::vector<std::string> columns;
  if ((loss & kPolicy) != 0) columns.push_back("advantages");
  if ((loss & kClipped) != 0 || !options.rollout_is.empty()) columns.push_back("rollout_log_prob");
  if (!options.rollout_is.empty()) columns.push_back("old_log_prob");
  if (options.use_kl_loss) columns.push_back("ref_log_prob");
  if (loss == kValue) columns.push_back("returns");
  if (loss == kValue && options.cliprange_value > 0) columns.push_back("values");
  return columns;
}

}  // namespace

LossCheck CheckLoss(absl::string_view name, const Options& options) {
  LossCheck check;
  const uint32_t loss = Find(name);
  if (loss == 0) {
    check.problems.push_back({"", absl::StrCat("'", name, "' is no loss; there are ",
                                               absl::StrJoin(LossNames(), ", "))});
    return check;
  }
  ApplyOptions<LossOptions>(LossFields(), name, loss, options, check.options, check.problems);
  const double c = check.options.clip_ratio_c;
  if (c != 0 && c <= 1) {
    check.problems.push_back(
        {"clip_ratio_c", absl::StrCat(c, " is not above 1 (or 0 for no dual clip)")});
  }
  check.columns = ColumnsOf(loss, check.options);
  return check;
}

std::vector<std::string> LossNames() {
  std::vector<std::string> names;
  for (const auto& entry : Losses()) names.emplace_back(entry.first);
  return names;
}

std::vector<std::string> LossOptionNames(absl::string_view name) {
  std::vector<std::string> names;
  for (const auto& field : LossFields()) {
    if ((field.users & Find(name)) != 0) names.emplace_back(field.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace baton::algorithms
