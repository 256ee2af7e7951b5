#include "controller/spec/job_spec/presets.h"

#include <algorithm>
#include <optional>

#include "absl/strings/string_view.h"
#include "controller/spec/dataflow/role_names.h"
#include "controller/spec/job_spec/spec.h"
#include "sdk/common/schema/estimator_options.h"
#include "sdk/common/schema/loss_options.h"
#include "sdk/common/schema/presets.h"
#include "sdk/common/schema_spec/spec_fields.h"

namespace baton::controller {
namespace {

using google::protobuf::Struct;

v1::JobKind KindOf(const Recipe& recipe) {
  switch (recipe.kind) {
    case PresetKind::kSft:
      return v1::JOB_KIND_SFT;
    case PresetKind::kRewardModel:
      return v1::JOB_KIND_REWARD_MODEL;
    case PresetKind::kRl:
      break;
  }
  return v1::JOB_KIND_RL;
}

// Sets an option that the user did not set: the field of spec.algorithm that has its name, or else
// one of `more`.
void FillOption(const std::string& name, const OptionValue& value, v1::AlgorithmSpec* algorithm,
                Struct* more) {
  if (HasOptionField(*algorithm, name)) {
    if (!GetField(*algorithm, name)) SetField(name, value, algorithm);
  } else if (more->fields().count(name) == 0) {
    SetOption(name, value, more);
  }
}

// Options that are fields of spec.algorithm, then those that the user gave by name.
template <class Spec>
void AddOptions(const std::vector<OptionField<Spec>>& table, uint32_t user,
                const v1::AlgorithmSpec& algorithm, const Struct& given, Struct* options) {
  for (const auto& row : table) {
    const auto value = (row.users & user) != 0 ? GetField(algorithm, row.name) : std::nullopt;
    if (value) SetOption(row.name, *value, options);
  }
  for (const auto& [name, value] : given.fields()) (*options->mutable_fields())[name] = value;
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

// `finds_flaws`: the judge finds right answers with wrong reasoning.
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
  if (ruled) add(roles::kReward, reward.method(), "rule_reward", 1);
  if (learned) {
    add(roles::kRewardModel, "compute_reward", "model_reward",
        spec.reward_model().has_weight() ? spec.reward_model().weight() : 1);
  }
  if (generative) {
    add(roles::kJudge, "compute_reward", "judge_reward",
        spec.judge().has_weight() ? spec.judge().weight() : 1);
  }
  if (finds_flaws) AddScore(graph, "judge", roles::kJudge, "compute_reward", "flawed");
}

void AddAdvantage(const v1::AlgorithmSpec& algorithm, v1::Dataflow& graph) {
  v1::AdvantageNode* node = graph.mutable_advantage();
  node->set_estimator(algorithm.adv_estimator());
  const auto estimator = EstimatorOf(algorithm.adv_estimator());
  AddOptions(EstimatorOptionTable(), estimator ? UserBit(*estimator) : 0, algorithm,
             algorithm.advantage(), node->mutable_options());
}

void AddUpdate(const std::string& role, const std::string& loss, v1::Dataflow& graph) {
  v1::UpdateNode* update = graph.add_update();
  update->set_role(role);
  update->set_method("update");
  update->set_loss(loss);
}

void AddActor(const v1::JobSpec& spec, const std::string& loss, v1::Dataflow& graph) {
  AddUpdate(roles::kActor, loss, graph);
  if (spec.kind() != v1::JOB_KIND_RL) return;
  *graph.mutable_update(graph.update_size() - 1)->mutable_options() = spec.algorithm().loss();
}

// The spec's value, outside of the graph, of an option of a node's loss; nullopt: none.
std::optional<OptionValue> OptionInSpec(const v1::JobSpec& spec, const std::string& role,
                                        absl::string_view option) {
  if (option == "temperature") {
    // Greedy responses are not samples of any temperature, so the loss has its default then.
    const double temperature = spec.rollout().temperature();
    if (spec.kind() != v1::JOB_KIND_RL || temperature <= 0) return std::nullopt;
    return temperature;
  }
  if (option == "cliprange_value") {
    return GetField(role == roles::kCostCritic ? spec.cost_critic() : spec.critic(), option);
  }
  return GetField(spec.algorithm(), option);
}

}  // namespace

const std::vector<Preset>& Presets() {
  static const auto* const presets = [] {
    auto* out = new std::vector<Preset>();
    for (const Recipe& recipe : Recipes()) {
      out->push_back({recipe.name, KindOf(recipe), recipe.summary});
    }
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
  const Recipe* recipe = FindRecipe(algorithm->preset());
  if (recipe == nullptr || recipe->kind != PresetKind::kRl) return;
  if (!algorithm->has_adv_estimator()) algorithm->set_adv_estimator(recipe->estimator);
  if (!algorithm->has_dynamic_sampling()) {
    algorithm->set_dynamic_sampling(recipe->dynamic_sampling);
  }
  if (!algorithm->has_critic_warmup()) algorithm->set_critic_warmup(recipe->critic_warmup);
  Options advantage = recipe->advantage;
  if (recipe->cost && algorithm->cost_critic()) advantage["cost_estimator"] = std::string("gae");
  Struct* more_of_estimator = algorithm->mutable_advantage();
  Struct* more_of_loss = algorithm->mutable_loss();
  for (const auto& [name, value] : advantage) {
    FillOption(name, value, algorithm, more_of_estimator);
  }
  for (const auto& [name, value] : recipe->policy) {
    FillOption(name, value, algorithm, more_of_loss);
  }
}

v1::JobSpec ExampleSpec(const std::string& preset) {
  v1::JobSpec spec;
  const Recipe* recipe = FindRecipe(preset);
  if (recipe == nullptr) return spec;
  spec.set_kind(KindOf(*recipe));
  spec.mutable_model()->set_path("/path/to/a/hugging/face/model");
  spec.mutable_data()->add_train_files("train.jsonl");
  spec.mutable_trainer()->set_total_training_steps(100);
  spec.mutable_algorithm()->set_preset(preset);
  if (recipe->kind != PresetKind::kRl) return spec;
  spec.mutable_reward()->add_rules()->set_type("exact_match");
  if (recipe->cost) spec.mutable_cost_model()->mutable_model()->set_path("job:cost-model");
  if (recipe->flaws) {
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
  const Recipe* recipe = FindRecipe(algorithm.preset());
  if (recipe == nullptr) return graph;
  if (effective.kind() != v1::JOB_KIND_RL) {
    AddActor(effective, recipe->loss, graph);
    FillUpdates(effective, &graph);
    return graph;
  }
  graph.add_generate()->set_purpose("train");
  if (recipe->baseline) graph.add_generate()->set_purpose("baseline");
  AddRewards(effective, recipe->flaws, graph);
  if (recipe->cost) AddScore(graph, "cost", roles::kCost, "compute_reward", "cost");
  if (algorithm.recompute_log_prob()) {
    AddScore(graph, "old_log_prob", roles::kActor, "compute_log_prob", "old_log_prob");
  }
  if (Flag(algorithm.advantage(), "use_kl_in_reward") || algorithm.use_kl_loss() ||
      effective.has_reference()) {
    AddScore(graph, "reference", roles::kReference, "compute_log_prob", "ref_log_prob");
  }
  const bool cost_critic = recipe->cost && algorithm.cost_critic();
  if (recipe->critic) AddScore(graph, "values", roles::kCritic, "compute_values", "values");
  if (cost_critic) {
    AddScore(graph, "cost_values", roles::kCostCritic, "compute_values", "cost_values");
  }
  AddAdvantage(algorithm, graph);
  AddActor(effective, recipe->loss, graph);
  if (recipe->critic) AddUpdate(roles::kCritic, "value", graph);
  if (cost_critic) AddUpdate(roles::kCostCritic, "value", graph);
  FillUpdates(effective, &graph);
  return graph;
}

void FillUpdates(const v1::JobSpec& spec, v1::Dataflow* dataflow) {
  for (v1::UpdateNode& node : *dataflow->mutable_update()) {
    const auto loss = LossOf(node.loss());
    if (!loss) continue;
    for (const absl::string_view option : OptionNames(LossOptionTable(), UserBit(*loss))) {
      if (node.options().fields().count(std::string(option)) > 0) continue;
      const auto setting = OptionInSpec(spec, node.role(), option);
      if (setting) SetOption(option, *setting, node.mutable_options());
    }
  }
}

void FillLossScale(const v1::JobSpec& spec, v1::Dataflow* dataflow) {
  for (v1::UpdateNode& node : *dataflow->mutable_update()) {
    const auto& options = node.options().fields();
    const auto mode = options.find("loss_agg_mode");
    if (mode == options.end() || mode->second.string_value() != "seq-mean-token-sum-norm") continue;
    if (!LossOf(node.loss()) || options.contains("loss_scale_factor")) continue;
    SetOption("loss_scale_factor", static_cast<double>(spec.data().max_response_length()),
              node.mutable_options());
  }
}

}  // namespace baton::controller
