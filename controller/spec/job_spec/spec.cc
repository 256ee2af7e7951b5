#include "controller/spec/job_spec/spec.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"
#include "controller/spec/dataflow/check_dataflow.h"
#include "controller/spec/dataflow/pools.h"
#include "controller/spec/dataflow/roles.h"
#include "controller/spec/job_spec/check_without_kind.h"
#include "controller/spec/job_spec/evaluation_only.h"
#include "controller/spec/job_spec/presets.h"
#include "controller/spec/settings/check_counts.h"
#include "controller/spec/settings/check_ending.h"
#include "controller/spec/settings/check_patterns.h"
#include "controller/spec/settings/check_placement.h"
#include "controller/spec/settings/check_speculation.h"
#include "controller/spec/settings/fill_pools.h"
#include "controller/spec/settings/schedule.h"
#include "controller/spec/settings/train_mix.h"
#include "controller/spec/settings/training_length.h"
#include "sdk/common/messages/settings.h"
#include "sdk/common/messages/violations.h"
#include "sdk/common/schema/template_kwargs.h"
#include "sdk/common/schema_spec/model_init.h"

namespace baton::controller {
namespace {

void CheckInit(v1::ModelInitSpec* init, Violations& out) {
  FillModelInit(init);
  const int heads = std::max(1, init->num_attention_heads());
  if (init->hidden_size() % heads != 0 || (init->hidden_size() / heads) % 2 != 0) {
    out.Add("model.init.num_attention_heads",
            absl::StrCat("hidden_size ", init->hidden_size(), " over ", heads,
                         " heads is not an even number of dimensions per head"));
  }
  if (init->num_key_value_heads() < 1 || heads % init->num_key_value_heads() != 0) {
    out.Add(
        "model.init.num_key_value_heads",
        absl::StrCat(init->num_key_value_heads(), " does not divide num_attention_heads ", heads));
  }
}

// What the chat template of the model at `path` is given.
void CheckTemplateSettings(const std::string& path, const v1::ModelSpec& model, Violations& out) {
  for (const auto& [key, value] : model.chat_template_kwargs().fields()) {
    const absl::Status allowed = CheckTemplateKwarg(key);
    if (!allowed.ok()) out.Add(path + ".chat_template_kwargs", std::string(allowed.message()));
  }
  absl::CivilDay day;
  const std::string& date = model.chat_template_date();
  if (model.has_chat_template_date() && (date.size() != 10 || !absl::ParseCivilTime(date, &day))) {
    out.Add(path + ".chat_template_date",
            absl::StrCat("'", date, "' is no day; write it as YYYY-MM-DD"));
  }
}

void CheckModel(v1::JobSpec* spec, Violations& out) {
  const bool given = spec->has_model();  // else it is reported as missing
  v1::ModelSpec* model = spec->mutable_model();
  const bool has_path = !model->path().empty();
  if (model->has_init() ? has_path : given && !has_path) {
    out.Add("model", has_path ? "has both `path` and `init`; give one"
                              : "needs `path` (a Hugging Face directory, or job:NAME) or `init`");
  }
  if (model->has_init()) CheckInit(model->mutable_init(), out);
  FillDefaults(model);
  CheckTemplateSettings("model", *model, out);
}

// Keys of the lines of data files.
void CheckKeys(const v1::DataSpec& data, Violations& out) {
  const auto named = [&out](const char* field, bool given, const std::string& key) {
    if (!given) return;
    if (key.empty()) out.Add(field, "is empty; remove it, or name the key");
    if (key.size() > 256) out.Add(field, "is longer than 256 bytes");
  };
  named("data.prompt_key", data.has_prompt_key(), data.prompt_key());
  named("data.answer_key", data.has_answer_key(), data.answer_key());
  named("data.response_key", data.has_response_key(), data.response_key());
  named("data.source_key", data.has_source_key(), data.source_key());
  named("data.extra_key", data.has_extra_key(), data.extra_key());
}

void CheckData(v1::JobSpec* spec, Violations& out) {
  v1::DataSpec* data = spec->mutable_data();
  if (data->train_files().empty() && !spec->trainer().val_only()) {
    out.Add("data.train_files", "is missing; give at least one JSONL file");
  }
  FillDefaults(data);
  if (!data->has_gen_batch_size()) data->set_gen_batch_size(data->train_batch_size());
  if (data->pretrain_files().empty()) {
    if (data->has_pretrain_batch_size()) {
      out.Add("data.pretrain_batch_size", "needs data.pretrain_files");
    }
  } else if (!data->has_pretrain_batch_size()) {
    data->set_pretrain_batch_size(data->train_batch_size());
  }
  CheckKeys(*data, out);
  if (data->loss_on() == "all_assistant" && spec->kind() != v1::JOB_KIND_SFT &&
      data->pretrain_files().empty()) {
    out.Add("data.loss_on", "all_assistant is for kind sft and for data.pretrain_files; remove it");
  }
  if (spec->model().has_init()) {
    const int64_t longest =
        static_cast<int64_t>(data->max_prompt_length()) + data->max_response_length();
    if (longest > spec->model().init().max_position_embeddings()) {
      out.Add("data.max_response_length",
              absl::StrCat("max_prompt_length + max_response_length = ", longest,
                           " exceeds model.init.max_position_embeddings ",
                           spec->model().init().max_position_embeddings()));
    }
  }
}

void CheckRollout(v1::JobSpec* spec, Violations& out) {
  v1::RolloutSpec* rollout = spec->mutable_rollout();
  v1::ValSamplingSpec* val = rollout->mutable_val();
  FillDefaults(rollout);
  if (!val->has_temperature()) val->set_temperature(rollout->temperature());
  if (!val->has_top_p()) val->set_top_p(rollout->top_p());
  if (!val->has_top_k()) val->set_top_k(rollout->top_k());
  if (rollout->temperature() == 0 && rollout->n() > 1) {
    out.Add("rollout.temperature",
            "0 makes all samples of a prompt equal; give a value above 0 or n: 1");
  }
}

void CheckRules(const v1::RewardSpec& reward, Violations& out) {
  for (int i = 0; i < reward.rules_size(); ++i) {
    const v1::RewardRule& rule = reward.rules(i);
    const std::string path = absl::StrCat("reward.rules[", i, "]");
    if (rule.has_when() && rule.when().source().empty()) {
      out.Add(path + ".when", "names no source; give `source`, or remove it");
    }
    if (rule.type() != "regex" || !rule.pattern().empty()) continue;
    out.Add(path + ".pattern", "is missing; a rule of type regex needs one");
  }
}

void CheckReward(v1::JobSpec* spec, Violations& out) {
  v1::RewardSpec* reward = spec->mutable_reward();
  const bool none = reward->rules().empty() && reward->command().empty() && !reward->has_method();
  if (none && !spec->has_reward_model() && !spec->has_dataflow()) {
    out.Add("reward", "is missing; give `rules`, a `command` or a `method`, or spec.reward_model");
  }
  CheckRules(*reward, out);
  if (reward->has_method() && reward->method().empty()) {
    out.Add("reward.method", "is empty; remove it, or name a method");
  }
  const bool own =
      reward->rules().empty() && reward->command().empty() && reward->method() == "compute_reward";
  if (own && !spec->has_reward_model() && !spec->has_judge() && !spec->has_dataflow()) {
    out.Add("reward.method",
            "compute_reward is the method of Baton's own workers, which computes `rules` and "
            "runs a `command`: give one of these, or register the method of your own worker "
            "under another name");
  }
  FillDefaults(reward);
}

void CheckAlgorithm(v1::JobSpec* spec, Violations& out) {
  v1::AlgorithmSpec* algorithm = spec->mutable_algorithm();
  if (!algorithm->has_preset()) algorithm->set_preset(DefaultPreset(spec->kind()));
  const std::vector<std::string> presets = PresetsOf(spec->kind());
  if (std::find(presets.begin(), presets.end(), algorithm->preset()) == presets.end()) {
    out.Add("algorithm.preset", absl::StrCat("'", algorithm->preset(),
                                             "' is not one of: ", absl::StrJoin(presets, ", ")));
  }
  if (spec->kind() == v1::JOB_KIND_RL) FillPreset(algorithm);
  FillDefaults(algorithm);
}

// A role's own model; absent fields are the job's.
void CheckOwnModel(const std::string& path, const v1::JobSpec& spec, bool required,
                   v1::ModelSpec* model, Violations& out) {
  const bool none = model->path().empty() && !model->has_init();
  if (none && required) {
    return out.Add(path + ".model.path",
                   "is missing; give a model with a scalar head, e.g. job:NAME of a job of kind "
                   "reward_model");
  }
  if (none) {
    *model = spec.model();
    return;
  }
  // An effective spec has the job's own model here.
  const std::string job_init = required ? "" : spec.model().init().SerializeAsString();
  if (model->has_init() && model->init().SerializeAsString() != job_init) {
    out.Add(path + ".model.init", "a model that scores cannot have random weights; give path");
  }
  if (!model->has_chat_template()) model->set_chat_template(spec.model().chat_template());
  if (!model->has_dtype()) model->set_dtype(spec.model().dtype());
  CheckTemplateSettings(path + ".model", *model, out);
}

void CheckScoringModel(const std::string& name, bool required, v1::JobSpec* spec, Violations& out) {
  const std::string path = ScoringModelPath(name);
  v1::ScoringModelSpec* role = MutableScoringModelOf(spec, name);
  CheckOwnModel(path, *spec, required, role->mutable_model(), out);
  auto& counts = *spec->mutable_resources()->mutable_role_workers();
  const auto count = counts.find(name);
  if (role->has_parallel()) {
    FillDefaults(role->mutable_parallel());
    const int64_t ranks = int64_t{role->parallel().tp()} * role->parallel().dp();
    if (count != counts.end() && count->second != ranks) {
      out.Add(absl::StrCat("resources.role_workers.", name),
              absl::StrCat("is ", count->second, ", but spec.", path, ".parallel makes ", ranks,
                           " workers; give one of the two"));
    }
  } else if (count != counts.end()) {
    role->mutable_parallel()->set_tp(1);
    role->mutable_parallel()->set_dp(count->second);
  }
  counts.erase(name);  // `parallel` has the number from here on
  if (!role->has_max_token_len()) role->set_max_token_len(spec->actor().max_token_len());
}

// Fills in the training settings of a role.
void FillTraining(v1::ActorSpec* train) {
  train->mutable_parallel();
  FillDefaults(train);
}

// A critic starts from the job's own model unless it has one, and learns like the actor unless set
// otherwise.
void FillCritic(const std::string& section, const v1::JobSpec& spec, v1::CriticSpec* critic,
                Violations& out) {
  CheckOwnModel(section, spec, false, critic->mutable_model(), out);
  v1::ActorSpec train = spec.actor();
  train.clear_parallel();  // its group is a matter of its own
  train.MergeFrom(critic->train());
  FillTraining(&train);
  *critic->mutable_train() = train;
  FillDefaults(critic);
}

// Adds settings of spec.algorithm that need something the dataflow does not have.
void CheckAsked(const v1::Dataflow& dataflow, const v1::JobSpec& spec, Violations& out) {
  const v1::AlgorithmSpec& algorithm = spec.algorithm();
  const auto& scores = dataflow.score();
  const auto made = [&](const char* column) {
    return std::any_of(scores.begin(), scores.end(),
                       [&](const v1::ScoreNode& node) { return node.out() == column; });
  };
  if (algorithm.recompute_log_prob() && !made("old_log_prob")) {
    out.Add("algorithm.recompute_log_prob",
            "is true, but no node of spec.dataflow makes old_log_prob; add {node: old_log_prob, "
            "role: actor, method: compute_log_prob, out: old_log_prob}, or remove it");
  }
  if (algorithm.cost_critic() && !made("cost_values")) {
    out.Add("algorithm.cost_critic",
            spec.has_dataflow()
                ? "is true, but no node of spec.dataflow makes cost_values; add {node: "
                  "cost_values, role: cost_critic, method: compute_values, out: cost_values} and "
                  "an update of role cost_critic, or remove it"
                : absl::StrCat("preset ", algorithm.preset(),
                               " has no costs; use preset safe_rlhf, or remove it"));
  }
}

// Fills in the sections of the dataflow's roles, and refuses sections of other roles.
void CheckRoles(const v1::Dataflow& dataflow, v1::JobSpec* spec, Violations& out) {
  std::set<std::string> roles;
  for (const v1::ScoreNode& node : dataflow.score()) roles.insert(node.role());
  for (const v1::UpdateNode& node : dataflow.update()) roles.insert(node.role());
  const auto unused = [&](const char* section, const char* role, bool given) {
    if (!given || roles.count(role) > 0) return false;
    const bool cost_critic = section == absl::string_view("cost_critic");
    out.Add(section,
            absl::StrCat("the dataflow of preset ", spec->algorithm().preset(), " has no role ",
                         role, "; remove it or ",
                         cost_critic ? "set algorithm.cost_critic: true" : "use another preset"));
    return true;
  };
  if (!unused("critic", roles::kCritic, spec->has_critic()) && roles.count(roles::kCritic) > 0) {
    FillCritic("critic", *spec, spec->mutable_critic(), out);
  }
  if (!unused("cost_critic", roles::kCostCritic, spec->has_cost_critic()) &&
      roles.count(roles::kCostCritic) > 0) {
    FillCritic("cost_critic", *spec, spec->mutable_cost_critic(), out);
  }
  if (roles.count(roles::kReference) > 0) {
    CheckScoringModel("reference", false, spec, out);
  }
  if (!unused("reward_model", roles::kRewardModel, spec->has_reward_model()) &&
      roles.count(roles::kRewardModel) > 0) {
    CheckScoringModel("reward_model", true, spec, out);
  }
  if (!unused("cost_model", roles::kCost, spec->has_cost_model()) &&
      roles.count(roles::kCost) > 0) {
    CheckScoringModel("cost", true, spec, out);
  }
  if (!unused("judge", roles::kJudge, spec->has_judge()) && roles.count(roles::kJudge) > 0) {
    if (!spec->has_judge()) CheckSettings(v1::JudgeSpec(), "judge", &out);
    v1::JudgeSpec* judge = spec->mutable_judge();
    CheckOwnModel("judge", *spec, false, judge->mutable_model(), out);
    FillDefaults(judge);
  }
  for (const auto& [role, workers] : spec->resources().role_workers()) {
    const std::string field = absl::StrCat("resources.role_workers.", role);
    if (role == roles::kReward || role == roles::kRollout || MayTrain(role)) {
      out.Add(field,
              absl::StrCat(
                  role == roles::kReward || role == roles::kRollout
                      ? absl::StrCat("the spec says it in resources.", role, "_workers; use that")
                      : absl::StrCat("follows from the `parallel` of role ", role, "; set that")));
    } else if (roles.count(role) == 0) {
      out.Add(field, absl::StrCat("the dataflow has no role ", role));
    }
  }
}

// Checks that pretraining texts come with a loss that uses them.
void CheckPretraining(const v1::Dataflow& dataflow, const v1::JobSpec& spec, Violations& out) {
  bool wanted = false;
  for (const v1::UpdateNode& node : dataflow.update()) {
    const auto coefficient = node.options().fields().find("ptx_coef");
    wanted |= node.role() == roles::kActor && coefficient != node.options().fields().end() &&
              coefficient->second.number_value() > 0;
  }
  if (wanted && spec.data().pretrain_files().empty()) {
    out.Add("data.pretrain_files", "is missing; the actor's loss has ptx_coef, so give texts");
  } else if (!wanted && !spec.data().pretrain_files().empty()) {
    out.Add("data.pretrain_files",
            "are given, but no loss uses them; set algorithm.loss.ptx_coef (kind rl)");
  }
}

// The field in which the user set the number of a role's ranks.
std::string ShapeField(const v1::JobSpec& given, const std::string& role, const char* size) {
  for (int i = 0; i < given.resources().pools_size(); ++i) {
    if (!given.resources().pools(i).layouts().contains(role)) continue;
    return absl::StrCat("resources.pools[", i, "].layouts.", role, ".", size);
  }
  return absl::StrCat(TrainingPath(role), ".parallel.", size);
}

// One worker, if neither the user nor a pool sets the number.
void ShapeScoringRoles(const v1::Dataflow& dataflow, v1::JobSpec* effective) {
  for (const v1::ScoreNode& node : dataflow.score()) {
    v1::ScoringModelSpec* scoring = MutableScoringModelOf(effective, node.role());
    if (scoring == nullptr || scoring->has_parallel()) continue;
    scoring->mutable_parallel()->set_tp(1);
    scoring->mutable_parallel()->set_dp(1);
  }
}

// Ranks that would have nothing to do.
void CheckGroups(const v1::Dataflow& dataflow, const v1::JobSpec& given, const v1::JobSpec& spec,
                 Violations& out) {
  for (const v1::UpdateNode& node : dataflow.update()) {
    const std::string path = TrainingPath(node.role());
    const v1::ActorSpec& train = TrainingOf(spec, node.role());
    const GroupShape shape = ShapeOf(spec, node.role());
    const int64_t samples = spec.kind() == v1::JOB_KIND_RL ? std::max(spec.rollout().n(), 1) : 1;
    const int64_t whole = spec.data().train_batch_size() * samples;
    const int64_t mini = train.ppo_mini_batch_size() > 0 ? train.ppo_mini_batch_size() : whole;
    if (shape.dp > mini) {
      out.Add(ShapeField(given, node.role(), "dp"),
              absl::StrCat(shape.dp, " data ranks share mini-batches of ", mini,
                           " sequences, so some would have none; lower dp, or raise ", path,
                           ".ppo_mini_batch_size or data.train_batch_size"));
    }
  }
}

void CheckTrainer(v1::JobSpec* spec, Violations& out) {
  CheckTrainingLength(spec, &out);
  v1::TrainerSpec* trainer = spec->mutable_trainer();
  const bool evaluates = !spec->data().val_files().empty();
  const bool learns_first = spec->kind() != v1::JOB_KIND_RL;  // evaluates with a step's update
  FillDefaults(trainer);
  if (!evaluates && !trainer->val_only() &&
      (trainer->test_freq() > 0 || trainer->val_before_train() || trainer->val_after_train())) {
    out.Add("trainer.test_freq", "evaluation needs data.val_files");
  }
  if (!trainer->has_val_before_train()) {
    trainer->set_val_before_train(evaluates && !learns_first);
  }
  if (learns_first && trainer->val_before_train()) {
    out.Add("trainer.val_before_train",
            "kinds sft and reward_model evaluate with the update of a step, so there is no "
            "evaluation before the first one; set it to false");
  }
  if (!trainer->has_val_after_train()) trainer->set_val_after_train(evaluates);
}

// Kinds that generate nothing have no such settings.
void RefuseRollouts(v1::JobSpec* spec, Violations& out) {
  const std::string kind = spec->kind() == v1::JOB_KIND_SFT ? "sft" : "reward_model";
  const auto refuse = [&](absl::string_view field, absl::string_view what) {
    out.Add(field, absl::StrCat("kind ", kind, " has no ", what, "; remove it"));
  };
  constexpr std::pair<const char*, const char*> kSections[] = {
      {"reward", "rewards"},
      {"rollout", "rollouts"},
      {"weights", "rollouts that weights travel to"},
      {"dataflow", "dataflow of your own"},
      {"critic", "critic"},
      {"cost_critic", "critic of costs"},
      {"reference", "reference"},
      {"reward_model", "reward model but the one it trains"},
      {"cost_model", "cost model"},
      {"judge", "judge"}};
  for (const auto& [section, what] : kSections) {
    const auto* field = spec->GetDescriptor()->FindFieldByName(section);
    if (!spec->GetReflection()->HasField(*spec, field)) continue;
    refuse(section, what);
    spec->GetReflection()->ClearField(spec, field);  // what is in it does not matter
  }
  if (spec->algorithm().recompute_log_prob()) refuse("algorithm.recompute_log_prob", "rollouts");
  if (spec->algorithm().cost_critic()) refuse("algorithm.cost_critic", "critic of costs");
  spec->mutable_resources()->clear_rollout_workers();
  spec->mutable_resources()->clear_reward_workers();
}

// Checks the rollouts and rewards of a spec of kind rl; other kinds have no workers for them.
void CheckGeneration(v1::JobSpec* spec, Violations& out) {
  v1::ResourcesSpec* resources = spec->mutable_resources();
  if (spec->kind() == v1::JOB_KIND_RL) {
    CheckRollout(spec, out);
    CheckReward(spec, out);
    FillDefaults(spec->mutable_weights());
    FillDefaults(resources);
  } else {
    resources->set_rollout_workers(0);
    resources->set_reward_workers(0);
  }
}

// The graph, and the settings that go with its roles. `given` loses the roles that the job does not
// use.
void CheckGraph(v1::JobSpec* given, v1::JobSpec* effective, v1::Dataflow* dataflow,
                Violations& out) {
  if (dataflow->generate().empty()) dataflow->add_generate()->set_purpose("train");
  FillUpdates(*effective, dataflow);  // what the spec adds to a graph is checked with it
  CheckDataflow(*effective, *dataflow, &out);
  if (effective->trainer().val_only()) {
    const std::set<std::string> unused = KeepEvaluation(dataflow);
    ForgetRoles(unused, effective);
    ForgetRoles(unused, given);
    return CheckRoles(*dataflow, effective, out);
  }
  CheckRoles(*dataflow, effective, out);
  CheckAsked(*dataflow, *effective, out);
}

// Checks and fills in which roles share workers.
void CheckSharing(const v1::JobSpec& given, const v1::Dataflow& dataflow, v1::JobSpec* effective,
                  Violations& out) {
  const size_t before = out.size();
  CheckPlacement(given, dataflow, &out);
  const bool sound = out.size() == before && !out.Mentions("resources.placement") &&
                     !out.Mentions("resources.pools");
  if (sound) FillPools(given, dataflow, effective, &out);
  CheckGenerationTp(*effective, dataflow, &out);
  ShapeScoringRoles(dataflow, effective);
  // One copy of the weights is enough to publish them. Ranks that generate are all of use.
  const bool only_publishes = effective->trainer().val_only() && !IsHybrid(*effective, dataflow) &&
                              effective->resources().pools().empty();
  if (only_publishes) effective->mutable_actor()->mutable_parallel()->set_dp(1);
}

}  // namespace

CheckedSpec CheckSpec(const v1::JobSpec& spec) {
  if (spec.kind() == v1::JOB_KIND_UNSPECIFIED) return CheckWithoutKind(spec);
  CheckedSpec out;
  out.effective = spec;
  v1::JobSpec* effective = &out.effective;
  Violations violations;
  if (!CheckCounts(spec, &violations)) {
    out.violations = violations.Take();
    return out;
  }
  const bool rl = spec.kind() == v1::JOB_KIND_RL;
  if (!rl) RefuseRollouts(effective, violations);
  effective->mutable_data();  // without them, their required fields are missing
  effective->mutable_trainer();
  CheckSettings(*effective, "", &violations);
  if (!spec.has_priority()) effective->set_priority(WithDefaults(v1::JobSpec()).priority());
  CheckModel(effective, violations);
  CheckData(effective, violations);
  CheckGeneration(effective, violations);
  CheckAlgorithm(effective, violations);
  FillTraining(effective->mutable_actor());
  CheckTrainer(effective, violations);
  CheckTrainMix(*effective, &violations);
  CheckWarmup(*effective, &violations);
  CheckEnding(effective, &violations);
  out.dataflow = spec.has_dataflow() ? spec.dataflow() : MakeDataflow(*effective);
  const bool known = spec.has_dataflow() || out.dataflow.update_size() > 0;  // the preset
  v1::JobSpec used = spec;
  if (rl && known) CheckGraph(&used, effective, &out.dataflow, violations);
  FillUpdates(*effective, &out.dataflow);  // those of critics, which CheckGraph completed
  FillLossScale(*effective, &out.dataflow);
  if (known) CheckSharing(used, out.dataflow, effective, violations);
  CheckSchedule(out.dataflow, effective, &violations);
  CheckSpeculation(out.dataflow, effective, &violations);
  CheckGroups(out.dataflow, used, *effective, violations);
  CheckPretraining(out.dataflow, *effective, violations);
  CheckPatterns(*effective, out.dataflow, &violations);
  out.violations = violations.Take();
  return out;
}

}  // namespace baton::controller
