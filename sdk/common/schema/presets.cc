#include "sdk/common/schema/presets.h"

namespace baton {
namespace {

constexpr double kClipHigher = 0.28;  // 2503.14476

std::vector<Recipe> MakeRecipes() {
  std::vector<Recipe> out;
  const auto add = [&](const char* name, const char* summary, const char* estimator,
                       const char* loss) -> Recipe& {
    Recipe& recipe = out.emplace_back();
    recipe.name = name;
    recipe.summary = summary;
    recipe.estimator = estimator;
    recipe.loss = loss;
    return recipe;
  };
  Recipe& grpo = add(kDefaultRlPreset,
                     "group-relative advantages, clip-higher, groups without a difference dropped "
                     "(2402.03300, 2503.14476)",
                     "grpo", "ppo_clip");
  grpo.advantage = {{"filter_groups", true}};
  grpo.policy = {{"clip_ratio_high", kClipHigher}};
  Recipe& ppo =
      add("ppo", "critic, generalized advantage estimation, KL in the reward (1707.06347)", "gae",
          "ppo_clip");
  ppo.critic = true;
  ppo.advantage = {{"lam", 0.95}, {"use_kl_in_reward", true}};
  Recipe& dr_grpo =
      add("dr_grpo", "GRPO without the divisions that bias it (2503.20783)", "dr_grpo", "ppo_clip");
  dr_grpo.policy = {{"loss_agg_mode", "seq-mean-token-sum-norm"}};
  Recipe& dapo =
      add("dapo", "clip-higher, dynamic sampling, token-level loss, overlong shaping (2503.14476)",
          "grpo", "ppo_clip");
  dapo.advantage = {{"filter_groups", true}};
  dapo.policy = {{"clip_ratio_high", kClipHigher}};
  dapo.dynamic_sampling = true;
  Recipe& rloo = add("rloo", "leave-one-out baseline (2402.14740)", "rloo", "ppo_clip");
  rloo.advantage = {{"use_kl_in_reward", true}};
  Recipe& rpp = add("reinforce_plus_plus",
                    "token-level KL, advantages normalised over the batch (2501.03262)",
                    "reinforce_plus_plus", "ppo_clip");
  rpp.advantage = {{"use_kl_in_reward", true}};
  add("reinforce_plus_plus_baseline",
      "the group's mean as baseline, normalised over the batch (2501.03262)",
      "reinforce_plus_plus_baseline", "ppo_clip");
  Recipe& remax = add("remax", "the reward of the greedy response as baseline (2310.10505)",
                      "remax", "ppo_clip");
  remax.baseline = true;
  Recipe& gspo = add("gspo", "sequence-level ratio and clip (2507.18071)", "grpo", "gspo");
  gspo.policy = {{"clip_ratio_low", 3e-4},
                 {"clip_ratio_high", 4e-4},
                 {"loss_agg_mode", "seq-mean-token-mean"}};
  Recipe& cispo =
      add("cispo", "clipped importance weights, no token loses its gradient (2506.13585)", "grpo",
          "cispo");
  cispo.policy = {{"clip_ratio_low", 1.0}, {"clip_ratio_high", 4.0}};  // no lower bound
  Recipe& safe = add("safe_rlhf", "reward against cost with a Lagrange multiplier (2310.12773)",
                     "gae", "ppo_clip");
  safe.critic = safe.cost = true;
  safe.advantage = {{"lam", 0.95},
                    {"use_kl_in_reward", true},
                    {"use_cost", true},
                    {"cost_estimator", "reinforce_plus_plus"}};
  Recipe& vapo =
      add("vapo", "value warm-up, decoupled and length-adaptive GAE, positive NLL (2504.05118)",
          "gae", "ppo_clip");
  vapo.critic = true;
  vapo.critic_warmup = 50;
  vapo.advantage = {{"critic_lam", 1.0}, {"adaptive_lam_alpha", 0.05}};
  vapo.policy = {{"clip_ratio_high", kClipHigher}, {"positive_nll_coef", 0.1}};
  Recipe& fapo = add(
      "fapo", "DAPO that takes back the reward of right answers with wrong reasoning (2510.22543)",
      "grpo", "ppo_clip");
  fapo.flaws = true;
  fapo.advantage = {{"flawed_positive_penalty", 1.0}};
  fapo.policy = {{"clip_ratio_high", kClipHigher}};
  Recipe& sft = add("sft", "next-token cross-entropy on responses", "", "sft");
  sft.kind = PresetKind::kSft;
  Recipe& reward_model =
      add("reward_model", "Bradley-Terry on pairs of responses (2203.02155)", "", "bradley_terry");
  reward_model.kind = PresetKind::kRewardModel;
  return out;
}

}  // namespace

const std::vector<Recipe>& Recipes() {
  static const auto* const recipes = new std::vector<Recipe>(MakeRecipes());
  return *recipes;
}

const Recipe* FindRecipe(absl::string_view name) {
  for (const Recipe& recipe : Recipes()) {
    if (recipe.name == name) return &recipe;
  }
  return nullptr;
}

}  // namespace baton
