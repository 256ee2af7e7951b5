// The algorithms that have a name: what each of them is made of.
//
// The controller makes a job's dataflow of it (controller/spec/presets.h), the planner its roles.
// Sources: docs/algorithms.md.
#ifndef BATON_SDK_SCHEMA_PRESETS_H_
#define BATON_SDK_SCHEMA_PRESETS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "sdk/schema/options.h"

namespace baton {

enum class PresetKind { kRl, kSft, kRewardModel };

/// What a preset sets; the user's own values stand above them.
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
  Options advantage = {};  ///< Of the estimator, where the table's default is another.
  Options policy = {};     ///< Of the loss, likewise.
};

/// All of them, in the order in which they are listed to people.
const std::vector<Recipe>& Recipes();
/// Null for an unknown one.
const Recipe* FindRecipe(absl::string_view name);
/// Of kind rl, where the spec names none.
inline constexpr char kDefaultRlPreset[] = "grpo";

}  // namespace baton

#endif  // BATON_SDK_SCHEMA_PRESETS_H_
