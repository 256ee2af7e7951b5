#include "controller/core/presets.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/string_view.h"
#include "controller/algorithms/estimator_spec.h"
#include "controller/algorithms/loss_spec.h"
#include "controller/core/spec.h"
#include "sdk/base/options.h"

namespace baton::controller {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

// What a preset sets; the user's own values stand above them.
struct Recipe {
  Preset preset;
  std::string estimator;
  std::string loss;
  bool critic = false;
  bool baseline = false;   // one greedy response to each prompt
  bool cost = false;       // a cost model beside the reward
  Options advantage = {};  // of the estimator
  Options policy = {};     // of the loss
  bool filter_groups = false;
  bool dynamic_sampling = false;
  int critic_warmup = 0;
  double clip_low = 0.2;
  double clip_high = 0.2;
  std::string aggregation = "token-mean";
};

// Sources: docs/algorithms.md.
std::vector<Recipe> MakeRecipes() {
  std::vector<Recipe> out;
  const auto add = [&](const char* name, const char* summary, const char* estimator,
                       const char* loss) -> Recipe& {
    Recipe& recipe = out.emplace_back();
    recipe.preset = {name, v1::JOB_KIND_RL, summary};
    recipe.estimator = estimator;
    recipe.loss = loss;
    return recipe;
  };
  Recipe& grpo = add("grpo",
                     "group-relative advantages, clip-higher, groups without a difference dropped "
                     "(2402.03300, 2503.14476)",
                     "grpo", "ppo_clip");
  grpo.filter_groups = true;
  grpo.clip_high = 0.28;
  Recipe& ppo =
      add("ppo", "critic, generalized advantage estimation, KL in the reward (1707.06347)", "gae",
          "ppo_clip");
  ppo.critic = true;
  ppo.advantage = {{"lam", 0.95}, {"use_kl_in_reward", true}};
  Recipe& dr_grpo =
      add("dr_grpo", "GRPO without the divisions that bias it (2503.20783)", "dr_grpo", "ppo_clip");
  dr_grpo.aggregation = "seq-mean-token-sum-norm";
  Recipe& dapo =
      add("dapo", "clip-higher, dynamic sampling, token-level loss, overlong shaping (2503.14476)",
          "grpo", "ppo_clip");
  dapo.clip_high = 0.28;
  dapo.filter_groups = dapo.dynamic_sampling = true;
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
  gspo.clip_low = 3e-4;
  gspo.clip_high = 4e-4;
  gspo.aggregation = "seq-mean-token-mean";
  Recipe& cispo =
      add("cispo", "clipped importance weights, no token loses its gradient (2506.13585)", "grpo",
          "cispo");
  cispo.clip_low = 1;  // no lower bound
  cispo.clip_high = 4;
  Recipe& safe = add("safe_rlhf", "reward against cost with a Lagrange multiplier (2310.12773)",
                     "gae", "ppo_clip");
  safe.critic = safe.cost = true;
  safe.advantage = {{"lam", 0.95},
                    {"use_kl_in_reward", true},
                    {"use_cost", true},
                    {"cost_estimator", std::string("reinforce_plus_plus")}};
  Recipe& vapo =
      add("vapo", "value warm-up, decoupled and length-adaptive GAE, positive NLL (2504.05118)",
          "gae", "ppo_clip");
  vapo.critic = true;
  vapo.critic_warmup = 50;
  vapo.clip_high = 0.28;
  vapo.advantage = {{"critic_lam", 1.0}, {"adaptive_lam_alpha", 0.05}};
  vapo.policy = {{"positive_nll_coef", 0.1}};
  Recipe& fapo = add(
      "fapo", "DAPO that takes back the reward of right answers with wrong reasoning (2510.22543)",
      "grpo", "ppo_clip");
  fapo.clip_high = 0.28;
  fapo.advantage = {{"flawed_positive_penalty", 1.0}};
  Recipe& sft = add("sft", "next-token cross-entropy on responses", "", "sft");
  sft.preset.kind = v1::JOB_KIND_SFT;
  Recipe& reward_model =
      add("reward_model", "Bradley-Terry on pairs of responses (2203.02155)", "", "bradley_terry");
  reward_model.preset.kind = v1::JOB_KIND_REWARD_MODEL;
  return out;
}

const std::vector<Recipe>& Recipes() {
  static const auto* const recipes = new std::vector<Recipe>(MakeRecipes());
  return *recipes;
}

const Recipe* RecipeOf(const std::string& name) {
  for (const Recipe& recipe : Recipes()) {
    if (recipe.preset.name == name) return &recipe;
  }
  return nullptr;
}

void Set(Struct* options, const std::string& key, const OptionValue& value) {
  Value& field = (*options->mutable_fields())[key];
  if (const auto* flag = std::get_if<bool>(&value)) field.set_bool_value(*flag);
  if (const auto* number = std::get_if<double>(&value)) field.set_number_value(*number);
  if (const auto* text = std::get_if<std::string>(&value)) field.set_string_value(*text);
}

// Options that stand in `from` and not in `to`.
void Complete(const Options& from, Struct* to) {
  for (const auto& [name, value] : from) {
    if (to->fields().count(name) == 0) Set(to, name, value);
  }
}

bool Flag(const Struct& options, const std::string& name) {
  const auto found = options.fields().find(name);
  return found != options.fields().end() && found->second.bool_value();
}

v1::ScoreNode* AddScore(v1::Dataflow& graph, const char* node, const char* role,
                        const std::string& method, const char* out) {
  v1::ScoreNode* score = graph.add_score();
  score->set_node(node);
  score->set_role(role);
  score->set_method(method);
  score->set_out(out);
  return score;
}

// `finds_flaws`: the judge says which right answers are reasoned wrongly.
void AddRewards(const v1::JobSpec& spec, bool finds_flaws, v1::Dataflow& graph) {
  const v1::RewardSpec& reward = spec.reward();
  const bool ruled =
      reward.rules_size() > 0 || !reward.command().empty() || reward.method() != "compute_reward";
  const bool learned = spec.has_reward_model();
  const bool generative = spec.has_judge() && !finds_flaws;
  const bool several = ruled + learned + generative > 1;
  auto& weights = *graph.mutable_advantage()->mutable_rewards();
  const auto add = [&](const char* role, const std::string& method, const char* out,
                       double weight) {
    AddScore(graph, role, role, method, several ? out : "reward");
    if (several) weights[out] = weight;
  };
  if (ruled) add("reward", reward.method(), "rule_reward", 1);
  if (learned) {
    add("reward_model", "compute_reward", "model_reward",
        spec.reward_model().has_weight() ? spec.reward_model().weight() : 1);
  }
  if (generative) {
    add("judge", "compute_reward", "judge_reward",
        spec.judge().has_weight() ? spec.judge().weight() : 1);
  }
  if (finds_flaws) AddScore(graph, "judge", "judge", "compute_reward", "flawed");
}

void AddAdvantage(const v1::AlgorithmSpec& algorithm, v1::Dataflow& graph) {
  v1::AdvantageNode* node = graph.mutable_advantage();
  node->set_estimator(algorithm.adv_estimator());
  const auto names = algorithms::EstimatorOptionNames(algorithm.adv_estimator());
  const std::set<std::string> known(names.begin(), names.end());
  Options given = {{"gamma", algorithm.gamma()},
                   {"lam", algorithm.lam()},
                   {"norm_adv_by_std_in_grpo", algorithm.norm_adv_by_std_in_grpo()},
                   {"filter_groups", algorithm.filter_groups()}};
  for (const auto& [name, value] : given) {
    if (known.count(name) > 0) Set(node->mutable_options(), name, value);
  }
  for (const auto& [name, value] : algorithm.advantage().fields()) {
    (*node->mutable_options()->mutable_fields())[name] = value;
  }
}

void AddCritic(const v1::JobSpec& spec, const char* role, const v1::CriticSpec& critic,
               v1::Dataflow& graph) {
  v1::UpdateNode* update = graph.add_update();
  update->set_role(role);
  update->set_method("update");
  update->set_loss("value");
  Set(update->mutable_options(), "loss_agg_mode", spec.algorithm().loss_agg_mode());
  Set(update->mutable_options(), "cliprange_value",
      critic.has_cliprange_value() ? critic.cliprange_value() : 0.5);
}

void AddActor(const v1::JobSpec& spec, const std::string& loss, v1::Dataflow& graph) {
  const v1::AlgorithmSpec& algorithm = spec.algorithm();
  v1::UpdateNode* update = graph.add_update();
  update->set_role("actor");
  update->set_method("update");
  update->set_loss(loss);
  if (spec.kind() != v1::JOB_KIND_RL) return;
  Struct* options = update->mutable_options();
  const auto names = algorithms::LossOptionNames(loss);
  const std::set<std::string> known(names.begin(), names.end());
  const Options given = {{"clip_ratio_low", algorithm.clip_ratio_low()},
                         {"clip_ratio_high", algorithm.clip_ratio_high()},
                         {"clip_ratio_c", algorithm.clip_ratio_c()},
                         {"loss_agg_mode", algorithm.loss_agg_mode()},
                         {"entropy_coeff", algorithm.entropy_coeff()},
                         {"use_kl_loss", algorithm.use_kl_loss()},
                         {"kl_loss_coef", algorithm.kl_loss_coef()},
                         {"kl_loss_type", algorithm.kl_loss_type()},
                         {"temperature", spec.rollout().temperature()}};
  for (const auto& [name, value] : given) {
    if (known.count(name) > 0) Set(options, name, value);
  }
  if (spec.rollout().temperature() == 0) options->mutable_fields()->erase("temperature");
  for (const auto& [name, value] : algorithm.loss().fields()) {
    (*options->mutable_fields())[name] = value;
  }
}

}  // namespace

const std::vector<Preset>& Presets() {
  static const auto* const presets = [] {
    auto* out = new std::vector<Preset>();
    for (const Recipe& recipe : Recipes()) out->push_back(recipe.preset);
    return out;
  }();
  return *presets;
}

std::vector<std::string> PresetsOf(v1::JobKind kind) {
  std::vector<std::string> names;
  for (const Preset& preset : Presets()) {
    if (preset.kind == kind) names.push_back(preset.name);
  }
  return names;
}

std::string DefaultPreset(v1::JobKind kind) {
  const auto presets = PresetsOf(kind);
  return presets.empty() ? "" : presets.front();
}

void FillPreset(v1::AlgorithmSpec* algorithm) {
  const Recipe* recipe = RecipeOf(algorithm->preset());
  if (recipe == nullptr || recipe->preset.kind != v1::JOB_KIND_RL) return;
  const auto fill = [&](bool has, auto set, const auto& value) {
    if (!has) (algorithm->*set)(value);
  };
  using A = v1::AlgorithmSpec;
  if (!algorithm->has_adv_estimator()) algorithm->set_adv_estimator(recipe->estimator);
  fill(algorithm->has_filter_groups(), &A::set_filter_groups, recipe->filter_groups);
  fill(algorithm->has_dynamic_sampling(), &A::set_dynamic_sampling, recipe->dynamic_sampling);
  fill(algorithm->has_critic_warmup(), &A::set_critic_warmup, recipe->critic_warmup);
  fill(algorithm->has_clip_ratio_low(), &A::set_clip_ratio_low, recipe->clip_low);
  fill(algorithm->has_clip_ratio_high(), &A::set_clip_ratio_high, recipe->clip_high);
  if (!algorithm->has_loss_agg_mode()) algorithm->set_loss_agg_mode(recipe->aggregation);
  if (const auto lam = recipe->advantage.find("lam"); lam != recipe->advantage.end()) {
    fill(algorithm->has_lam(), &A::set_lam, std::get<double>(lam->second));
  }
  Options advantage = recipe->advantage;
  advantage.erase("lam");  // it has a field of its own
  if (recipe->cost && algorithm->cost_critic()) advantage["cost_estimator"] = std::string("gae");
  Complete(advantage, algorithm->mutable_advantage());
  Complete(recipe->policy, algorithm->mutable_loss());
}

v1::JobSpec ExampleSpec(const std::string& preset) {
  v1::JobSpec spec;
  const Recipe* recipe = RecipeOf(preset);
  if (recipe == nullptr) return spec;
  spec.set_kind(recipe->preset.kind);
  spec.mutable_model()->set_path("/path/to/a/hugging/face/model");
  spec.mutable_data()->add_train_files("train.jsonl");
  spec.mutable_trainer()->set_total_training_steps(100);
  spec.mutable_algorithm()->set_preset(preset);
  if (recipe->preset.kind != v1::JOB_KIND_RL) return spec;
  spec.mutable_reward()->add_rules()->set_type("exact_match");
  if (recipe->cost) spec.mutable_cost_model()->mutable_model()->set_path("job:cost-model");
  if (preset == "fapo") {
    spec.mutable_judge()->set_template_(
        "{prompt}\n{response}\nIs there a mistake in this reasoning? Answer yes or no.");
    spec.mutable_judge()->set_verdict("(?i)(yes|no)");
    (*spec.mutable_judge()->mutable_verdicts())["yes"] = 1;
    (*spec.mutable_judge()->mutable_verdicts())["no"] = 0;
  }
  *spec.mutable_dataflow() = CheckSpec(spec).dataflow;
  return spec;
}

v1::Dataflow MakeDataflow(const v1::JobSpec& effective) {
  v1::Dataflow graph;
  const v1::AlgorithmSpec& algorithm = effective.algorithm();
  const Recipe* recipe = RecipeOf(algorithm.preset());
  if (recipe == nullptr) return graph;
  if (effective.kind() != v1::JOB_KIND_RL) {
    AddActor(effective, recipe->loss, graph);
    return graph;
  }
  graph.add_generate()->set_purpose("train");
  if (recipe->baseline) graph.add_generate()->set_purpose("baseline");
  AddRewards(effective, recipe->preset.name == "fapo", graph);
  if (recipe->cost) AddScore(graph, "cost", "cost", "compute_reward", "cost");
  if (algorithm.recompute_log_prob()) {
    AddScore(graph, "old_log_prob", "actor", "compute_log_prob", "old_log_prob");
  }
  if (Flag(algorithm.advantage(), "use_kl_in_reward") || algorithm.use_kl_loss() ||
      effective.has_reference()) {
    AddScore(graph, "reference", "reference", "compute_log_prob", "ref_log_prob");
  }
  const bool cost_critic = recipe->cost && algorithm.cost_critic();
  if (recipe->critic) AddScore(graph, "values", "critic", "compute_values", "values");
  if (cost_critic) {
    AddScore(graph, "cost_values", "cost_critic", "compute_values", "cost_values");
  }
  AddAdvantage(algorithm, graph);
  AddActor(effective, recipe->loss, graph);
  if (recipe->critic) AddCritic(effective, "critic", effective.critic(), graph);
  if (cost_critic) AddCritic(effective, "cost_critic", effective.cost_critic(), graph);
  return graph;
}

void FillLossScale(const v1::JobSpec& spec, v1::Dataflow* dataflow) {
  for (v1::UpdateNode& node : *dataflow->mutable_update()) {
    const auto names = algorithms::LossOptionNames(node.loss());
    if (std::find(names.begin(), names.end(), "loss_scale_factor") == names.end()) continue;
    auto& options = *node.mutable_options()->mutable_fields();
    const auto mode = options.find("loss_agg_mode");
    const std::string& aggregation =
        mode != options.end() ? mode->second.string_value() : spec.algorithm().loss_agg_mode();
    if (aggregation != "seq-mean-token-sum-norm" || options.contains("loss_scale_factor")) continue;
    options["loss_scale_factor"].set_number_value(spec.data().max_response_length());
  }
}

}  // namespace baton::controller
