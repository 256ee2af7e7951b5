#include "sdk/schema/loss_options.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/base/kl_type.h"
#include "sdk/base/status_macros.h"

namespace baton {
namespace {

constexpr std::array<std::pair<absl::string_view, LossSpec::Kind>, 6> kLosses = {
    {{"sft", LossSpec::kSft},
     {"ppo_clip", LossSpec::kPpoClip},
     {"gspo", LossSpec::kGspo},
     {"cispo", LossSpec::kCispo},
     {"reinforce", LossSpec::kReinforce},
     {"value", LossSpec::kValue}}};

std::vector<OptionField<LossSpec>> MakeLossTable() {
  constexpr uint32_t kAll = ~0u, kPpo = UserBit(LossSpec::kPpoClip),
                     kValueLoss = UserBit(LossSpec::kValue);
  constexpr uint32_t kActor = kAll & ~kValueLoss, kPolicy = kActor & ~UserBit(LossSpec::kSft);
  constexpr uint32_t kClipped = kPpo | UserBit(LossSpec::kGspo) | UserBit(LossSpec::kCispo);
  return {
#define BATON_LOSS_OPTION(name, type, default_value, losses, limits, meaning) \
  {#name, losses, &LossSpec::name, limits, meaning},
#include "sdk/schema/loss_options.def"
#undef BATON_LOSS_OPTION
  };
}

/// What no single option's bounds can say.
void CheckDualClip(const LossSpec& spec, std::vector<OptionProblem>& problems) {
  const double c = spec.clip_ratio_c;
  if (!(c > 0 && c <= 1)) return;
  problems.push_back({"clip_ratio_c", absl::StrCat(c, " is not above 1 (or 0 for no dual clip)")});
}

}  // namespace

const std::vector<OptionField<LossSpec>>& LossOptionTable() {
  static const auto* const table = new std::vector<OptionField<LossSpec>>(MakeLossTable());
  return *table;
}

std::vector<std::string> LossNames() {
  std::vector<std::string> names;
  for (const auto& loss : kLosses) names.emplace_back(loss.first);
  return names;
}

std::optional<LossSpec::Kind> LossOf(absl::string_view name) {
  for (const auto& [known, kind] : kLosses) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

std::string UnknownLoss(absl::string_view name) {
  return absl::StrCat("'", name, "' is no loss; there are ", absl::StrJoin(LossNames(), ", "));
}

LossSpec ReadLoss(LossSpec::Kind kind, const Options& options,
                  std::vector<OptionProblem>& problems) {
  LossSpec spec;
  spec.kind = kind;
  ApplyOptions(LossOptionTable(), kLosses[kind].first, UserBit(kind), options, spec, problems);
  CheckDualClip(spec, problems);
  return spec;
}

absl::StatusOr<LossSpec> MakeLossSpec(absl::string_view name, const Options& options) {
  const auto kind = LossOf(name);
  if (!kind) return absl::InvalidArgumentError(UnknownLoss(name));
  std::vector<OptionProblem> problems;
  LossSpec spec = ReadLoss(*kind, options, problems);
  BATON_RETURN_IF_ERROR(ToStatus(problems));
  return spec;
}

absl::Status Validate(const LossSpec& spec) {
  std::vector<OptionProblem> problems = CheckMembers(LossOptionTable(), spec);
  CheckDualClip(spec, problems);
  return ToStatus(problems);
}

}  // namespace baton
