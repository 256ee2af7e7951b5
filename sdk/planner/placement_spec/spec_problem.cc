#include "sdk/planner/placement_spec/spec_problem.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sdk/common/messages/settings.h"
#include "sdk/common/schema/presets.h"
#include "sdk/common/schema_spec/rewarding_nodes.h"

namespace baton::placement {
namespace {

// Tokens of a CPU's micro-batch, unless one sequence is longer (workers/trainer/train_options.h).
constexpr int64_t kMicroBatchTokens = 4096;

const char* const kRoles[] = {"actor",     "critic",       "cost_critic",
                              "reference", "reward_model", "cost"};

bool IsRl(const v1::JobSpec& spec) {
  return spec.kind() == v1::JOB_KIND_RL || spec.kind() == v1::JOB_KIND_UNSPECIFIED;
}

bool Trains(const std::string& role) {
  return role == "actor" || role == "critic" || role == "cost_critic";
}

// Roles of the score nodes that run: those of rewards alone in a job that only evaluates.
std::set<std::string> ScoringRoles(const v1::JobSpec& spec) {
  const std::vector<bool> rewarding = RewardingNodes(spec.dataflow());
  std::set<std::string> roles;
  for (int i = 0; i < spec.dataflow().score_size(); ++i) {
    if (spec.trainer().val_only() && !rewarding[static_cast<size_t>(i)]) continue;
    roles.insert(spec.dataflow().score(i).role());
  }
  return roles;
}

bool ActorScores(const v1::JobSpec& spec) {
  if (spec.has_dataflow()) return ScoringRoles(spec).count("actor") > 0;
  return spec.algorithm().recompute_log_prob() && !spec.trainer().val_only();
}

bool HasScalarHead(const std::string& role) {
  return role == "critic" || role == "cost_critic" || role == "reward_model" || role == "cost";
}

const v1::ModelSpec& ModelOf(const v1::JobSpec& spec, const std::string& role) {
  const auto own = [&](bool given, const v1::ModelSpec& model) -> const v1::ModelSpec& {
    return given && (model.has_path() || model.has_init()) ? model : spec.model();
  };
  if (role == "critic") return own(spec.critic().has_model(), spec.critic().model());
  if (role == "cost_critic") {
    return own(spec.cost_critic().has_model(), spec.cost_critic().model());
  }
  if (role == "reference") return own(spec.reference().has_model(), spec.reference().model());
  if (role == "reward_model") {
    return own(spec.reward_model().has_model(), spec.reward_model().model());
  }
  if (role == "cost") return own(spec.cost_model().has_model(), spec.cost_model().model());
  return spec.model();
}

// The recipe of a job of kind rl.
const Recipe* RecipeOf(const v1::JobSpec& spec) {
  const v1::AlgorithmSpec& algorithm = spec.algorithm();
  return FindRecipe(algorithm.has_preset() ? algorithm.preset() : kDefaultRlPreset);
}

bool UsesKlInReward(const v1::AlgorithmSpec& algorithm, const Recipe& recipe) {
  constexpr char kOption[] = "use_kl_in_reward";
  const auto& options = algorithm.advantage().fields();
  if (const auto given = options.find(kOption); given != options.end()) {
    return given->second.bool_value();
  }
  const auto set = recipe.advantage.find(kOption);
  return set != recipe.advantage.end() && set->second == OptionValue(true);
}

// Roles of the graph that the preset makes (controller/spec/job_spec/presets.cc).
std::set<std::string> PresetRoles(const v1::JobSpec& spec) {
  static const auto* const none = new Recipe();
  const Recipe* found = RecipeOf(spec);
  const Recipe& recipe = found == nullptr ? *none : *found;
  std::set<std::string> roles = {"actor"};
  if (spec.has_reward_model()) roles.insert("reward_model");
  if (spec.has_judge() && !recipe.flaws) roles.insert("judge");
  if (spec.trainer().val_only()) return roles;  // the others score no rewards
  if (recipe.critic) roles.insert("critic");
  if (recipe.cost) roles.insert("cost");
  if (recipe.cost && spec.algorithm().cost_critic()) roles.insert("cost_critic");
  if (recipe.flaws) roles.insert("judge");
  if (spec.has_reference() || spec.algorithm().use_kl_loss() ||
      UsesKlInReward(spec.algorithm(), recipe)) {
    roles.insert("reference");
  }
  return roles;
}

int64_t SamplesOf(const v1::JobSpec& spec) { return WithDefaults(spec.rollout()).n(); }

Workload MakeWorkload(const v1::JobSpec& spec) {
  const bool rl = IsRl(spec);
  const v1::DataSpec data = WithDefaults(spec.data());
  const int64_t prompts = data.train_batch_size();
  const int64_t drawn = data.gen_batch_size() > 0 ? data.gen_batch_size() : prompts;
  const int64_t n = spec.kind() == v1::JOB_KIND_REWARD_MODEL ? 2  // a pair
                    : !rl                                    ? 1
                                                             : SamplesOf(spec);
  const Recipe* recipe = RecipeOf(spec);
  const bool baseline = rl && recipe != nullptr && recipe->baseline;
  Workload w;
  w.generated = drawn * (n + (baseline ? 1 : 0));
  w.sequences = prompts * n;
  w.prompt_tokens = data.max_prompt_length();
  w.response_tokens = data.max_response_length();
  w.mini_batch = spec.actor().ppo_mini_batch_size() > 0
                     ? std::min<int64_t>(spec.actor().ppo_mini_batch_size(), w.sequences)
                     : w.sequences;
  w.epochs = WithDefaults(spec.actor()).ppo_epochs();
  w.bytes = spec.model().dtype() == "bfloat16" ? 2 : 4;
  return w;
}

// Sequences of an update of the role.
int64_t MiniBatch(const v1::JobSpec& spec, const std::string& role) {
  const v1::ActorSpec& own = role == "critic"        ? spec.critic().train()
                             : role == "cost_critic" ? spec.cost_critic().train()
                                                     : spec.actor();
  const int given = own.has_ppo_mini_batch_size() ? own.ppo_mini_batch_size()
                                                  : spec.actor().ppo_mini_batch_size();
  if (given > 0) return given;
  return (IsRl(spec) ? SamplesOf(spec) : 1) * WithDefaults(spec.data()).train_batch_size();
}

}  // namespace

std::set<std::string> AllRoles(const v1::JobSpec& spec) {
  if (!IsRl(spec)) return {"actor"};
  if (!spec.has_dataflow()) return PresetRoles(spec);
  std::set<std::string> roles = ScoringRoles(spec);
  if (spec.trainer().val_only()) {
    roles.insert("actor");
    return roles;
  }
  for (const v1::UpdateNode& node : spec.dataflow().update()) roles.insert(node.role());
  return roles;
}

std::vector<std::string> ModelRoles(const v1::JobSpec& spec) {
  const std::set<std::string> all = AllRoles(spec);
  std::vector<std::string> out;
  for (const char* role : kRoles) {
    if (all.count(role) > 0) out.emplace_back(role);
  }
  return out;
}

absl::StatusOr<SpecProblem> ProblemOf(const v1::JobSpec& spec, const ModelSource& source) {
  SpecProblem out;
  const std::vector<std::string> roles = ModelRoles(spec);
  if (roles.empty()) {
    return absl::InvalidArgumentError(
        "the job has no role with a model; its dataflow needs an "
        "update node of role actor");
  }
  for (const std::string& name : roles) {
    absl::StatusOr<PlannedModel> model = source(name, ModelOf(spec, name));
    if (!model.ok()) return model.status();
    Role role;
    role.name = name;
    role.model = *std::move(model);
    role.model.scalar_head = HasScalarHead(name) || spec.kind() == v1::JOB_KIND_REWARD_MODEL;
    role.generates = IsRl(spec) && name == "actor";
    role.scores = IsRl(spec) && (name != "actor" || ActorScores(spec));
    role.trains = Trains(name) && !spec.trainer().val_only();
    out.problem.roles.push_back(std::move(role));
  }
  for (const std::string& role : AllRoles(spec)) {
    if (std::find(roles.begin(), roles.end(), role) != roles.end()) continue;
    if (role == "reward") continue;  // rules and commands
    out.notes.push_back(
        absl::StrCat("role ", role, " is not in the plan; give it devices of its own"));
  }
  out.problem.setting.workload = MakeWorkload(spec);
  return out;
}

void ComputeAsOwnWorkers(const v1::JobSpec& spec, Workload* workload) {
  workload->bytes = 4;
  workload->recomputes = false;
  const int64_t asked = WithDefaults(spec.actor()).max_token_len();
  workload->micro_batch_tokens = std::min(asked, kMicroBatchTokens);
}

void KeepToRunnable(const v1::JobSpec& spec, Problem* problem) {
  const auto most = [](int field) {
    return static_cast<int>(SettingOf<v1::ParallelSpec>(field).max());
  };
  const int most_tensor = most(v1::ParallelSpec::kTpFieldNumber);
  const int most_data = most(v1::ParallelSpec::kDpFieldNumber);
  problem->max_pipeline = 1;
  ComputeAsOwnWorkers(spec, &problem->setting.workload);
  for (Role& role : problem->roles) {
    role.max_tensor = role.max_generation_tensor = most_tensor;
    role.max_data = static_cast<int>(
        role.trains ? std::clamp<int64_t>(MiniBatch(spec, role.name), 1, most_data) : most_data);
  }
}

void WritePools(const Problem& problem, const Plan& plan, v1::ResourcesSpec* resources) {
  resources->set_placement("pools");
  resources->clear_pools();
  for (const PoolPlan& pool : plan.pools) {
    v1::PoolSpec* out = resources->add_pools();
    out->set_devices(pool.devices);
    for (const RolePlan& role : pool.roles) {
      const Role& what = problem.roles[static_cast<size_t>(role.role)];
      out->add_roles(what.name);
      v1::LayoutSpec& layout = (*out->mutable_layouts())[what.name];
      if (role.layout.pipeline > 1) layout.set_pp(role.layout.pipeline);
      layout.set_tp(role.layout.tensor);
      layout.set_dp(role.layout.data);
      if (!what.generates) continue;
      out->add_roles("rollout");
      if (role.layout.pipeline > 1) layout.set_generation_pp(role.layout.generation_pipeline);
      layout.set_generation_tp(role.layout.generation_tensor);
    }
  }
}

}  // namespace baton::placement
