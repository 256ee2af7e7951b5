#include "sdk/common/schema/loss_options.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sdk/common/base/status_macros.h"

namespace baton {
namespace {

constexpr std::array<std::pair<absl::string_view, LossSpec::Kind>, 6> kLosses = {
    {{"sft", LossSpec::kSft},
     {"ppo_clip", LossSpec::kPpoClip},
     {"gspo", LossSpec::kGspo},
     {"cispo", LossSpec::kCispo},
     {"reinforce", LossSpec::kReinforce},
     {"value", LossSpec::kValue}}};

uint32_t OfLosses(const std::vector<absl::string_view>& losses) {
  uint32_t users = 0;
  for (const absl::string_view name : losses) users |= UserBit(LossOf(name).value());
  return users;
}

uint32_t NotOfLosses(const std::vector<absl::string_view>& losses) { return ~OfLosses(losses); }

std::vector<OptionField<LossSpec>> MakeLossTable() {
  constexpr uint32_t kAll = ~0u;
  return {
#define BATON_LOSS_OPTION(name, type, default_value, losses, limits, meaning) \
  {#name, losses, &LossSpec::name, limits, meaning},
#include "sdk/common/schema/loss_options.def"
#undef BATON_LOSS_OPTION
  };
}

void CheckDualClip(const LossSpec& spec, std::vector<OptionProblem>& problems) {
  const double c = spec.clip_ratio_c;
  if (!(c > 0 && c <= 1)) return;
  problems.push_back({"clip_ratio_c", absl::StrCat(c, " is not above 1 (or 0 for no dual clip)")});
}

/// The bounds of rollout_rs and of the veto.
void CheckRejection(const LossSpec& spec, std::vector<OptionProblem>& problems) {
  if (const double veto = spec.rollout_token_veto_threshold; veto >= 1) {
    problems.push_back({"rollout_token_veto_threshold",
                        absl::StrCat(veto,
                                     " is not below 1: it would reject sequences whose "
                                     "ratios are 1; give for example 1e-4")});
  }
  if (spec.rollout_rs.empty()) return;
  const double upper = spec.rollout_rs_threshold, lower = spec.rollout_rs_threshold_lower;
  if (upper == 0) {
    const bool named = std::any_of(problems.begin(), problems.end(), [](const OptionProblem& p) {
      return p.option == "rollout_rs_threshold";
    });
    if (named) return;
    problems.push_back(
        {"rollout_rs_threshold",
         absl::StrCat("is missing, and rollout_rs: ", spec.rollout_rs,
                      " needs it; give for example ", RejectsByRatio(spec) ? "2" : "0.01",
                      ", or leave out "
                      "rollout_rs")});
  } else if (!RejectsByRatio(spec)) {
    if (lower == 0) return;
    problems.push_back({"rollout_rs_threshold_lower",
                        absl::StrCat("has no effect with rollout_rs: ", spec.rollout_rs,
                                     ", a divergence, which is least at 0; leave it out")});
  } else if (upper < 1) {
    problems.push_back({"rollout_rs_threshold",
                        absl::StrCat(upper,
                                     " is below 1: it would reject what has the ratio 1, which is "
                                     "what the policy itself has sampled; give for example 2")});
  } else if (lower >= upper) {
    problems.push_back({"rollout_rs_threshold_lower",
                        absl::StrCat(lower, " is not below rollout_rs_threshold, ", upper)});
  } else if (lower > 1) {
    problems.push_back({"rollout_rs_threshold_lower",
                        absl::StrCat(lower,
                                     " is above 1: it would reject what has the ratio 1, which is "
                                     "what the policy itself has sampled; give for example 0.5")});
  } else if (lower == 0 && upper <= 1) {
    problems.push_back(
        {"rollout_rs_threshold", absl::StrCat(upper,
                                              " is not above 1, so its inverse is no lower bound; "
                                              "give rollout_rs_threshold_lower too, or a higher "
                                              "threshold")});
  }
}

/// Checks that concern more than one option.
void CheckTogether(const LossSpec& spec, std::vector<OptionProblem>& problems) {
  CheckDualClip(spec, problems);
  CheckRejection(spec, problems);
}

}  // namespace

std::vector<absl::string_view> RolloutCorrections(const LossSpec& spec) {
  std::vector<absl::string_view> names;
  if (!spec.rollout_is.empty()) names.push_back("rollout_is");
  if (!spec.rollout_rs.empty()) names.push_back("rollout_rs");
  if (spec.rollout_token_veto_threshold > 0) names.push_back("rollout_token_veto_threshold");
  return names;
}

bool RejectsByRatio(const LossSpec& spec) {
  return !spec.rollout_rs.empty() && !absl::EndsWith(spec.rollout_rs, "_k3");
}

double LowestKeptRatio(const LossSpec& spec) {
  const double given = spec.rollout_rs_threshold_lower;
  return given > 0 ? given : 1 / spec.rollout_rs_threshold;
}

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
  CheckTogether(spec, problems);
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
  CheckTogether(spec, problems);
  return ToStatus(problems);
}

}  // namespace baton
