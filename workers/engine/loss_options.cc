#include "workers/engine/loss_options.h"

#include <algorithm>
#include <utility>

#include "sdk/base/kl_type.h"
#include "sdk/base/status_macros.h"

namespace baton::engine {
namespace {

constexpr uint32_t Bit(LossSpec::Kind kind) { return 1u << kind; }

const std::vector<OptionField<LossSpec>>& Table() {
  using S = LossSpec;
  constexpr uint32_t kAll = ~0u, kPpo = Bit(S::kPpoClip), kPolicy = kAll & ~Bit(S::kSft);
  constexpr uint32_t kClipped = kPpo | Bit(S::kGspo) | Bit(S::kCispo);
  const Bounds unit{0, 1}, positive{0, Bounds().high, true}, natural{0}, any;
  static const auto* const kTable = new std::vector<OptionField<LossSpec>>{
      {"clip_ratio_low", kClipped, &S::clip_ratio_low, unit},
      {"clip_ratio_high", kClipped, &S::clip_ratio_high, natural},
      {"clip_ratio_c", kPpo, &S::clip_ratio_c, natural},
      {"loss_agg_mode", kAll, &S::loss_agg_mode},
      {"loss_scale_factor", kAll, &S::loss_scale_factor, natural},
      {"entropy_coeff", kAll, &S::entropy_coeff},
      {"use_kl_loss", kAll, &S::use_kl_loss},
      {"kl_loss_coef", kAll, &S::kl_loss_coef},
      {"kl_loss_type", kAll, &S::kl_loss_type, any, KlLossNames()},
      {"temperature", kAll, &S::temperature, positive},
      {"rollout_is", kPolicy, &S::rollout_is, any, {"token", "sequence"}},
      {"rollout_is_threshold", kPolicy, &S::rollout_is_threshold, positive},
      {"positive_nll_coef", kPolicy, &S::positive_nll_coef, natural},
      {"ptx_coef", kPolicy, &S::ptx_coef, natural},
  };
  return *kTable;
}

}  // namespace

std::vector<std::string> LossNames() { return {"sft", "ppo_clip", "gspo", "cispo", "reinforce"}; }

std::vector<std::string> LossOptionNames(absl::string_view name) {
  std::vector<std::string> names;
  const auto kind = ParseLossKind(name);
  if (!kind.ok()) return names;
  for (const auto& field : Table()) {
    if ((field.users & Bit(*kind)) != 0) names.emplace_back(field.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<LossSpec> MakeLossSpec(absl::string_view name, const Options& options,
                                      LossSpec base) {
  BATON_ASSIGN_OR_RETURN(base.kind, ParseLossKind(name));
  std::vector<OptionProblem> problems;
  ApplyOptions<LossSpec>(Table(), name, Bit(base.kind), options, base, problems);
  if (absl::Status together = Validate(base); !together.ok()) {
    problems.push_back({"", std::string(together.message())});
  }
  BATON_RETURN_IF_ERROR(ToStatus(problems));
  return base;
}

}  // namespace baton::engine
