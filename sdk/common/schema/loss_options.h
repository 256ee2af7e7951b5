// The losses by name, and their options. The formulas are in workers/engine/loss/loss.h and
// scalar_loss.h.
#ifndef BATON_SDK_COMMON_SCHEMA_LOSS_OPTIONS_H_
#define BATON_SDK_COMMON_SCHEMA_LOSS_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/common/schema/options.h"

namespace baton {

/// A loss with its options, one member for each row of loss_options.def.
struct LossSpec {
  enum Kind { kSft, kPpoClip, kGspo, kCispo, kReinforce, kValue };
  Kind kind = kSft;

#define BATON_LOSS_OPTION(name, type, default_value, losses, limits, meaning) \
  type name = default_value;
#include "sdk/common/schema/loss_options.def"
#undef BATON_LOSS_OPTION
};

/// Every option of every loss, in the order of the documentation.
const std::vector<OptionField<LossSpec>>& LossOptionTable();
/// The bit of a loss in OptionField.users.
constexpr uint32_t UserBit(LossSpec::Kind kind) { return 1u << kind; }

/// sft, ppo_clip, gspo, cispo, reinforce (actor), value (critic).
std::vector<std::string> LossNames();
/// nullopt for an unknown name.
std::optional<LossSpec::Kind> LossOf(absl::string_view name);
/// "'ppo' is no loss; there are …".
std::string UnknownLoss(absl::string_view name);

/// The loss `kind` with the values of `options`. Mistakes are added to `problems`: options that the
/// loss does not have, types, bounds, options that do not go together.
LossSpec ReadLoss(LossSpec::Kind kind, const Options& options,
                  std::vector<OptionProblem>& problems);
/// As above, by name; InvalidArgument lists everything that is wrong.
absl::StatusOr<LossSpec> MakeLossSpec(absl::string_view name, const Options& options);

/// The names of those of rollout_is, rollout_rs and rollout_token_veto_threshold that are on. These
/// options compare log-probs that the actor has computed again (old_log_prob) with those of
/// generation.
std::vector<absl::string_view> RolloutCorrections(const LossSpec& spec);
/// A rollout_rs of ratios, which have a lower bound too; the others are of divergences.
bool RejectsByRatio(const LossSpec& spec);
/// The lowest ratio that a rollout_rs of ratios keeps: given, or the inverse of the highest.
double LowestKeptRatio(const LossSpec& spec);

/// InvalidArgument listing every value that is out of bounds, and options that do not go together.
[[nodiscard]] absl::Status Validate(const LossSpec& spec);

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_LOSS_OPTIONS_H_
