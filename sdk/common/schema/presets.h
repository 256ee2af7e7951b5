// The named algorithms, and the parts that each of them is made of.
//
// The controller makes a job's dataflow from them (controller/spec/job_spec/presets.h), the planner
// its roles. Sources: docs/algorithms.md.
#ifndef BATON_SDK_COMMON_SCHEMA_PRESETS_H_
#define BATON_SDK_COMMON_SCHEMA_PRESETS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "sdk/common/schema/options.h"

namespace baton {

enum class PresetKind { kRl, kSft, kRewardModel };

/// The values that a preset sets; the user's own values override them.
struct Recipe {
  std::string name;
  PresetKind kind = PresetKind::kRl;
  std::string summary;  ///< One line, with its source.
  std::string estimator;
  std::string loss;
  bool critic = false;
  bool baseline = false;  ///< One greedy response to each prompt.
  bool cost = false;      ///< A cost model beside the reward.
  bool flaws = false;     ///< The judge says which right answers are reasoned wrongly.
  bool dynamic_sampling = false;
  int critic_warmup = 0;
  Options advantage = {};  ///< Options of the estimator that differ from the table's defaults.
  Options policy = {};     ///< Options of the loss, likewise.
};

/// All of them, in the order in which they are listed to people.
const std::vector<Recipe>& Recipes();
/// Null for an unknown one.
const Recipe* FindRecipe(absl::string_view name);
/// The preset of kind rl if the spec names none.
inline constexpr char kDefaultRlPreset[] = "grpo";

}  // namespace baton

#endif  // BATON_SDK_COMMON_SCHEMA_PRESETS_H_
