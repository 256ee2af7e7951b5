#include "controller/spec/spec.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "controller/spec/check_counts.h"
#include "controller/spec/check_dataflow.h"
#include "controller/spec/check_ending.h"
#include "controller/spec/check_patterns.h"
#include "controller/spec/check_placement.h"
#include "controller/spec/check_speculation.h"
#include "controller/spec/check_without_kind.h"
#include "controller/spec/fill_pools.h"
#include "controller/spec/presets.h"
#include "controller/spec/roles.h"
#include "controller/spec/schedule.h"
#include "controller/spec/train_mix.h"
#include "sdk/schema/estimator_options.h"
#include "sdk/schema/loss_options.h"
#include "sdk/schema/optimizer_options.h"
#include "sdk/schema/spec_defaults.h"
#include "sdk/schema_spec/model_init.h"
#include "sdk/schema_spec/spec_fields.h"

namespace baton::controller {
namespace {

// Collects violations; `Number` and `OneOf` also fill in a default.
class Checker {
 public:
  explicit Checker(std::vector<v1::FieldViolation>* out) : out_(out) {}

  void Fail(absl::string_view field, absl::string_view description) {
    v1::FieldViolation violation;
    violation.set_field(absl::StrCat("spec.", field));
    violation.set_description(std::string(description));
    out_->push_back(std::move(violation));
  }

  // Checks `value` against [low, high].
  template <typename T>
  void InRange(absl::string_view field, T value, T low, T high) {
    if (std::isfinite(static_cast<double>(value)) && value >= low && value <= high) return;
    Fail(field, absl::StrCat(value, " is not in [", low, ", ", high, "]"));
  }

  void OneOf(absl::string_view field, absl::string_view value,
             absl::Span<const absl::string_view> allowed) {
    for (absl::string_view a : allowed) {
      if (a == value) return;
    }
    Fail(field, absl::StrCat("'", value, "' is not one of: ", absl::StrJoin(allowed, ", ")));
  }

 private:
  std::vector<v1::FieldViolation>* out_;
};

// Fills in the default of an absent field, then checks its bounds.
#define BATON_NUMBER(path, msg, field, def, low, high)                                            \
  do {                                                                                            \
    if (!(msg)->has_##field()) (msg)->set_##field(def);                                           \
    using T = decltype((msg)->field());                                                           \
    check.InRange<T>(path "." #field, (msg)->field(), static_cast<T>(low), static_cast<T>(high)); \
  } while (false)

#define BATON_CHOICE(path, msg, field, def, ...)                 \
  do {                                                           \
    if (!(msg)->has_##field()) (msg)->set_##field(def);          \
    check.OneOf(path "." #field, (msg)->field(), {__VA_ARGS__}); \
  } while (false)

#define BATON_BOOL(msg, field, def) \
  if (!(msg)->has_##field()) (msg)->set_##field(def)

// The same for every field of `message` that a table has a row for. A row without a field of its
// name is an option of graphs alone.
template <class Spec>
void CheckTable(const std::string& path, const std::vector<OptionField<Spec>>& table,
                google::protobuf::Message* message, Checker& check) {
  for (const auto& row : table) {
    if (!HasOptionField(*message, row.name)) continue;
    if (!GetField(*message, row.name)) SetField(row.name, DefaultOf(row), message);
    const std::string problem = CheckSpecField(row, *GetField(*message, row.name));
    if (!problem.empty()) check.Fail(absl::StrCat(path, ".", row.name), problem);
  }
}

void CheckInit(v1::ModelInitSpec* init, Checker& check) {
  if (init->characters().empty()) {
    check.Fail("model.init.characters",
               "is missing; give every character the model may read or write, as one string");
  }
  FillModelInit(init);
  check.InRange("model.init.hidden_size", init->hidden_size(), 8, 65536);
  check.InRange("model.init.num_hidden_layers", init->num_hidden_layers(), 1, 256);
  check.InRange("model.init.num_attention_heads", init->num_attention_heads(), 1, 1024);
  check.InRange("model.init.max_position_embeddings", init->max_position_embeddings(), 8, 1 << 24);
  check.InRange("model.init.intermediate_size", init->intermediate_size(), 8, 1 << 20);
  const int heads = std::max(1, init->num_attention_heads());
  if (init->hidden_size() % heads != 0 || (init->hidden_size() / heads) % 2 != 0) {
    check.Fail("model.init.num_attention_heads",
               absl::StrCat("hidden_size ", init->hidden_size(), " over ", heads,
                            " heads is not an even number of dimensions per head"));
  }
  if (init->num_key_value_heads() < 1 || heads % init->num_key_value_heads() != 0) {
    check.Fail(
        "model.init.num_key_value_heads",
        absl::StrCat(init->num_key_value_heads(), " does not divide num_attention_heads ", heads));
  }
}

void CheckModel(v1::JobSpec* spec, Checker& check) {
  v1::ModelSpec* model = spec->mutable_model();
  const bool has_path = !model->path().empty();
  if (has_path == model->has_init()) {
    check.Fail("model", has_path
                            ? "has both `path` and `init`; give one"
                            : "needs `path` (a Hugging Face directory, or job:NAME) or `init`");
  }
  if (model->has_init()) CheckInit(model->mutable_init(), check);
  BATON_CHOICE("model", model, chat_template, "auto", "auto", "model", "none", "chatml", "llama3");
  BATON_CHOICE("model", model, dtype, "float32", "float32", "bfloat16");
}

// Keys of the lines of data files.
void CheckKeys(const v1::DataSpec& data, Checker& check) {
  const auto named = [&check](const char* field, bool given, const std::string& key) {
    if (!given) return;
    if (key.empty()) check.Fail(field, "is empty; remove it, or name the key");
    if (key.size() > 256) check.Fail(field, "is longer than 256 bytes");
  };
  named("data.prompt_key", data.has_prompt_key(), data.prompt_key());
  named("data.answer_key", data.has_answer_key(), data.answer_key());
  named("data.response_key", data.has_response_key(), data.response_key());
}

void CheckData(v1::JobSpec* spec, Checker& check) {
  v1::DataSpec* data = spec->mutable_data();
  if (data->train_files().empty()) {
    check.Fail("data.train_files", "is missing; give at least one JSONL file");
  }
  BATON_NUMBER("data", data, train_batch_size, kDefaultTrainBatchSize, 1, 65536);
  BATON_NUMBER("data", data, gen_batch_size, data->train_batch_size(), 1, 65536);
  if (!data->pretrain_files().empty()) {
    BATON_NUMBER("data", data, pretrain_batch_size, data->train_batch_size(), 1, 65536);
  } else if (data->has_pretrain_batch_size()) {
    check.Fail("data.pretrain_batch_size", "needs data.pretrain_files");
  }
  BATON_NUMBER("data", data, val_max_samples, 0, 0, 1000000);
  BATON_NUMBER("data", data, max_prompt_length, kDefaultMaxPromptLength, 1, 1 << 24);
  BATON_NUMBER("data", data, max_response_length, kDefaultMaxResponseLength, 1, 1 << 24);
  BATON_BOOL(data, shuffle, true);
  BATON_BOOL(data, filter_overlong_prompts, false);
  if (!data->has_seed()) data->set_seed(1);
  CheckKeys(*data, check);
  if (spec->model().has_init()) {
    const int64_t longest =
        static_cast<int64_t>(data->max_prompt_length()) + data->max_response_length();
    if (longest > spec->model().init().max_position_embeddings()) {
      check.Fail("data.max_response_length",
                 absl::StrCat("max_prompt_length + max_response_length = ", longest,
                              " exceeds model.init.max_position_embeddings ",
                              spec->model().init().max_position_embeddings()));
    }
  }
}

void CheckRollout(v1::JobSpec* spec, Checker& check) {
  v1::RolloutSpec* rollout = spec->mutable_rollout();
  BATON_NUMBER("rollout", rollout, n, kDefaultSamples, 1, 1024);
  BATON_NUMBER("rollout", rollout, temperature, 1.0, 0.0, 10.0);
  BATON_NUMBER("rollout", rollout, top_p, 1.0, 1e-6, 1.0);
  BATON_NUMBER("rollout", rollout, top_k, 0, 0, 1 << 24);
  BATON_NUMBER("rollout", rollout, max_num_seqs, 128, 1, 4096);
  BATON_NUMBER("rollout", rollout, kv_cache_bytes, int64_t{1} << 30, int64_t{1} << 16,
               int64_t{1} << 50);
  BATON_NUMBER("rollout", rollout, tensor_model_parallel_size, 1, 1, 64);
  BATON_BOOL(rollout, deterministic, false);
  v1::ValSamplingSpec* val = rollout->mutable_val();
  BATON_NUMBER("rollout.val", val, n, 1, 1, 1024);
  BATON_NUMBER("rollout.val", val, temperature, rollout->temperature(), 0.0, 10.0);
  BATON_NUMBER("rollout.val", val, top_p, rollout->top_p(), 1e-6, 1.0);
  BATON_NUMBER("rollout.val", val, top_k, rollout->top_k(), 0, 1 << 24);
  if (spec->kind() == v1::JOB_KIND_RL && rollout->temperature() == 0 && rollout->n() > 1) {
    check.Fail("rollout.temperature",
               "0 makes all samples of a prompt equal; give a value above 0 or n: 1");
  }
}

void CheckRule(v1::RewardRule* rule, int index, Checker& check) {
  const std::string path = absl::StrCat("reward.rules[", index, "]");
  if (!rule->has_type()) {
    check.Fail(path + ".type", "is missing; one of: exact_match, numeric, regex");
  } else {
    check.OneOf(path + ".type", rule->type(), {"exact_match", "numeric", "regex"});
  }
  if (rule->type() == "regex" && rule->pattern().empty()) {
    check.Fail(path + ".pattern", "is missing; a rule of type regex needs one");
  }
  if (!rule->has_tolerance()) rule->set_tolerance(1e-9);
  BATON_BOOL(rule, strip, true);
  BATON_BOOL(rule, ignore_case, false);
  if (!rule->has_weight()) rule->set_weight(1);
  if (!rule->has_reward()) rule->set_reward(1);
  if (!rule->has_otherwise()) rule->set_otherwise(0);
}

void CheckReward(v1::JobSpec* spec, Checker& check) {
  v1::RewardSpec* reward = spec->mutable_reward();
  const bool none = reward->rules().empty() && reward->command().empty() && !reward->has_method();
  if (none && !spec->has_reward_model() && !spec->has_dataflow()) {
    check.Fail("reward",
               "is missing; give `rules`, a `command` or a `method`, or spec.reward_model");
  }
  for (int i = 0; i < reward->rules_size(); ++i) CheckRule(reward->mutable_rules(i), i, check);
  if (!reward->has_command_weight()) reward->set_command_weight(1);
  BATON_NUMBER("reward", reward, command_processes, 1, 1, 64);
  BATON_NUMBER("reward", reward, timeout_seconds, 30.0, 0.001, 86400.0);
  BATON_NUMBER("reward", reward, max_error_rate, kDefaultMaxErrorRate, 0.0, 1.0);
  BATON_NUMBER("reward", reward, startup_seconds, 0.0, 0.0, 86400.0);
  const bool own =
      reward->rules().empty() && reward->command().empty() && reward->method() == "compute_reward";
  if (own && !spec->has_reward_model() && !spec->has_judge() && !spec->has_dataflow()) {
    check.Fail("reward.method",
               "compute_reward is the method of Baton's own workers, which computes `rules` and "
               "runs a `command`: give one of these, or register the method of your own worker "
               "under another name");
  }
  if (!reward->has_method()) reward->set_method("compute_reward");
}

void CheckAlgorithm(v1::JobSpec* spec, Checker& check) {
  v1::AlgorithmSpec* algorithm = spec->mutable_algorithm();
  if (!algorithm->has_preset()) algorithm->set_preset(DefaultPreset(spec->kind()));
  const std::vector<std::string> presets = PresetsOf(spec->kind());
  if (std::find(presets.begin(), presets.end(), algorithm->preset()) == presets.end()) {
    check.Fail("algorithm.preset", absl::StrCat("'", algorithm->preset(),
                                                "' is not one of: ", absl::StrJoin(presets, ", ")));
  }
  if (spec->kind() == v1::JOB_KIND_RL) FillPreset(algorithm);
  CheckTable("algorithm", EstimatorOptionTable(), algorithm, check);
  BATON_BOOL(algorithm, dynamic_sampling, false);
  BATON_NUMBER("algorithm", algorithm, max_num_gen_batches, 10, 1, 1000);
  BATON_NUMBER("algorithm", algorithm, critic_warmup, 0, 0, 10000000);
  CheckTable("algorithm", LossOptionTable(), algorithm, check);
  BATON_BOOL(algorithm, recompute_log_prob, false);
  BATON_BOOL(algorithm, cost_critic, false);
  BATON_CHOICE("algorithm", algorithm, mode, "sync", "sync", "async");
}

void CheckParallel(const std::string& path, v1::ParallelSpec* parallel, Checker& check) {
  if (!parallel->has_tp()) parallel->set_tp(1);
  if (!parallel->has_dp()) parallel->set_dp(1);
  check.InRange(path + ".parallel.tp", parallel->tp(), 1, kMostTensorRanks);
  check.InRange(path + ".parallel.dp", parallel->dp(), 1, kMostDataRanks);
}

void CheckTraining(const std::string& path, v1::ActorSpec* actor, Checker& check) {
#define BATON_ACTOR(field, def, low, high)                                   \
  do {                                                                       \
    if (!actor->has_##field()) actor->set_##field(def);                      \
    using T = decltype(actor->field());                                      \
    check.InRange<T>(path + "." #field, actor->field(), static_cast<T>(low), \
                     static_cast<T>(high));                                  \
  } while (false)
  CheckTable(path, OptimizerOptionTable(), actor, check);
  BATON_ACTOR(ppo_mini_batch_size, 0, 0, 1 << 24);
  BATON_ACTOR(ppo_epochs, kDefaultPpoEpochs, 1, 64);
  BATON_ACTOR(max_token_len, kDefaultMaxTokenLen, 1, 1 << 28);
#undef BATON_ACTOR
  CheckParallel(path, actor->mutable_parallel(), check);
}

// A role's own model; absent fields are the job's.
void CheckOwnModel(const std::string& path, const v1::JobSpec& spec, bool required,
                   v1::ModelSpec* model, Checker& check) {
  const bool none = model->path().empty() && !model->has_init();
  if (none && required) {
    return check.Fail(path + ".model.path",
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
    check.Fail(path + ".model.init", "a model that scores cannot have random weights; give path");
  }
  if (!model->has_chat_template()) model->set_chat_template(spec.model().chat_template());
  if (!model->has_dtype()) model->set_dtype(spec.model().dtype());
}

void CheckScoringModel(const std::string& name, bool required, v1::JobSpec* spec, Checker& check) {
  const std::string path = ScoringModelPath(name);
  v1::ScoringModelSpec* role = MutableScoringModelOf(spec, name);
  CheckOwnModel(path, *spec, required, role->mutable_model(), check);
  auto& counts = *spec->mutable_resources()->mutable_role_workers();
  const auto count = counts.find(name);
  if (role->has_parallel()) {
    CheckParallel(path, role->mutable_parallel(), check);
    const int64_t ranks = int64_t{role->parallel().tp()} * role->parallel().dp();
    if (count != counts.end() && count->second != ranks) {
      check.Fail(absl::StrCat("resources.role_workers.", name),
                 absl::StrCat("is ", count->second, ", but spec.", path, ".parallel makes ", ranks,
                              " workers; give one of the two"));
    }
  } else if (count != counts.end()) {
    check.InRange(absl::StrCat("resources.role_workers.", name), count->second, 1, 1024);
    role->mutable_parallel()->set_tp(1);
    role->mutable_parallel()->set_dp(count->second);
  }
  counts.erase(name);  // `parallel` says it from here on
  if (!role->has_max_token_len()) role->set_max_token_len(spec->actor().max_token_len());
  check.InRange(path + ".max_token_len", role->max_token_len(), 1, 1 << 28);
}

// A critic starts from the job's own model unless it has one, and learns as the actor unless told
// otherwise.
void CheckCritic(const std::string& section, const v1::JobSpec& spec, v1::CriticSpec* critic,
                 Checker& check) {
  CheckOwnModel(section, spec, false, critic->mutable_model(), check);
  v1::ActorSpec train = spec.actor();
  train.clear_parallel();  // its group is a matter of its own
  train.MergeFrom(critic->train());
  *critic->mutable_train() = train;
  CheckTraining(section + ".train", critic->mutable_train(), check);
  if (!critic->has_cliprange_value()) critic->set_cliprange_value(LossSpec().cliprange_value);
  check.InRange(section + ".cliprange_value", critic->cliprange_value(), 1e-9, 1e9);
}

// What spec.algorithm asks for and the dataflow has not.
void CheckAsked(const v1::Dataflow& dataflow, const v1::JobSpec& spec, Checker& check) {
  const v1::AlgorithmSpec& algorithm = spec.algorithm();
  const auto& scores = dataflow.score();
  const auto made = [&](const char* column) {
    return std::any_of(scores.begin(), scores.end(),
                       [&](const v1::ScoreNode& node) { return node.out() == column; });
  };
  if (algorithm.recompute_log_prob() && !made("old_log_prob")) {
    check.Fail("algorithm.recompute_log_prob",
               "is true, but no node of spec.dataflow makes old_log_prob; add {node: old_log_prob, "
               "role: actor, method: compute_log_prob, out: old_log_prob}, or remove it");
  }
  if (algorithm.cost_critic() && !made("cost_values")) {
    check.Fail(
        "algorithm.cost_critic",
        spec.has_dataflow()
            ? "is true, but no node of spec.dataflow makes cost_values; add {node: "
              "cost_values, role: cost_critic, method: compute_values, out: cost_values} and "
              "an update of role cost_critic, or remove it"
            : absl::StrCat("preset ", algorithm.preset(),
                           " has no costs; use preset safe_rlhf, or remove it"));
  }
}

// The sections of the roles that the dataflow has, and none of those that it has not.
void CheckRoles(const v1::Dataflow& dataflow, v1::JobSpec* spec, Checker& check) {
  std::set<std::string> roles;
  for (const v1::ScoreNode& node : dataflow.score()) roles.insert(node.role());
  for (const v1::UpdateNode& node : dataflow.update()) roles.insert(node.role());
  const auto unused = [&](const char* section, const char* role, bool given) {
    if (!given || roles.count(role) > 0) return false;
    const bool cost_critic = section == absl::string_view("cost_critic");
    check.Fail(section, absl::StrCat("the dataflow of preset ", spec->algorithm().preset(),
                                     " has no role ", role, "; remove it or ",
                                     cost_critic ? "set algorithm.cost_critic: true"
                                                 : "use another preset"));
    return true;
  };
  if (!unused("critic", roles::kCritic, spec->has_critic()) && roles.count(roles::kCritic) > 0) {
    CheckCritic("critic", *spec, spec->mutable_critic(), check);
  }
  if (!unused("cost_critic", roles::kCostCritic, spec->has_cost_critic()) &&
      roles.count(roles::kCostCritic) > 0) {
    CheckCritic("cost_critic", *spec, spec->mutable_cost_critic(), check);
  }
  if (roles.count(roles::kReference) > 0) {
    CheckScoringModel("reference", false, spec, check);
  }
  if (!unused("reward_model", roles::kRewardModel, spec->has_reward_model()) &&
      roles.count(roles::kRewardModel) > 0) {
    CheckScoringModel("reward_model", true, spec, check);
  }
  if (!unused("cost_model", roles::kCost, spec->has_cost_model()) &&
      roles.count(roles::kCost) > 0) {
    CheckScoringModel("cost", true, spec, check);
  }
  if (!unused("judge", roles::kJudge, spec->has_judge()) && roles.count(roles::kJudge) > 0) {
    v1::JudgeSpec* judge = spec->mutable_judge();
    CheckOwnModel("judge", *spec, false, judge->mutable_model(), check);
    if (judge->template_().empty()) {
      check.Fail("judge.template",
                 "is missing; say what the judge is asked, with {prompt}, "
                 "{response} and {answer} where they belong");
    }
    if (judge->verdict().empty()) {
      check.Fail("judge.verdict",
                 "is missing; give a regular expression whose first group is the "
                 "verdict");
    }
    BATON_NUMBER("judge", judge, neutral, 0.0, -1e9, 1e9);
    BATON_NUMBER("judge", judge, max_new_tokens, 256, 1, 1 << 20);
  }
  for (const auto& [role, workers] : spec->resources().role_workers()) {
    const std::string field = absl::StrCat("resources.role_workers.", role);
    if (role == roles::kReward || role == roles::kRollout || MayTrain(role)) {
      check.Fail(field, absl::StrCat(role == roles::kReward || role == roles::kRollout
                                         ? absl::StrCat("the spec says it in resources.", role,
                                                        "_workers; use that")
                                         : absl::StrCat("follows from the `parallel` of role ",
                                                        role, "; set that")));
    } else if (roles.count(role) == 0) {
      check.Fail(field, absl::StrCat("the dataflow has no role ", role));
    } else {
      check.InRange(field, workers, 1, 1024);
    }
  }
}

// Texts to imitate, and a loss that looks at them.
void CheckPretraining(const v1::Dataflow& dataflow, const v1::JobSpec& spec, Checker& check) {
  bool wanted = false;
  for (const v1::UpdateNode& node : dataflow.update()) {
    const auto coefficient = node.options().fields().find("ptx_coef");
    wanted |= node.role() == roles::kActor && coefficient != node.options().fields().end() &&
              coefficient->second.number_value() > 0;
  }
  if (wanted && spec.data().pretrain_files().empty()) {
    check.Fail("data.pretrain_files", "is missing; the actor's loss has ptx_coef, so give texts");
  } else if (!wanted && !spec.data().pretrain_files().empty()) {
    check.Fail("data.pretrain_files",
               "are given, but no loss uses them; set algorithm.loss.ptx_coef (kind rl)");
  }
}

// Where the user said how many ranks a role has.
std::string ShapeField(const v1::JobSpec& given, const std::string& role, const char* size) {
  for (int i = 0; i < given.resources().pools_size(); ++i) {
    if (!given.resources().pools(i).layouts().contains(role)) continue;
    return absl::StrCat("resources.pools[", i, "].layouts.", role, ".", size);
  }
  return absl::StrCat(TrainingPath(role), ".parallel.", size);
}

// One worker, where neither the user nor a pool has said how many.
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
                 Checker& check) {
  for (const v1::UpdateNode& node : dataflow.update()) {
    const std::string path = TrainingPath(node.role());
    const v1::ActorSpec& train = TrainingOf(spec, node.role());
    const GroupShape shape = ShapeOf(spec, node.role());
    const int64_t samples = spec.kind() == v1::JOB_KIND_RL ? std::max(spec.rollout().n(), 1) : 1;
    const int64_t whole = spec.data().train_batch_size() * samples;
    const int64_t mini = train.ppo_mini_batch_size() > 0 ? train.ppo_mini_batch_size() : whole;
    if (shape.dp > mini) {
      check.Fail(ShapeField(given, node.role(), "dp"),
                 absl::StrCat(shape.dp, " data ranks share mini-batches of ", mini,
                              " sequences, so some would have none; lower dp, or raise ", path,
                              ".ppo_mini_batch_size or data.train_batch_size"));
    }
  }
}

void CheckTrainer(v1::JobSpec* spec, Checker& check) {
  v1::TrainerSpec* trainer = spec->mutable_trainer();
  const bool evaluates = !spec->data().val_files().empty();
  const bool learns_first = spec->kind() != v1::JOB_KIND_RL;  // evaluates with a step's update
  if (!trainer->has_total_training_steps()) {
    check.Fail("trainer.total_training_steps", "is missing; give the number of steps to train");
  } else {
    check.InRange<int64_t>("trainer.total_training_steps", trainer->total_training_steps(), 1,
                           10000000);
  }
  const bool warms_critics =
      spec->kind() == v1::JOB_KIND_RL && spec->algorithm().critic_warmup() > 0;
  const int64_t learns = trainer->total_training_steps() -
                         (warms_critics ? spec->algorithm().critic_warmup() : 0);  // the actor
  if (spec->actor().lr_schedule() != "constant" && trainer->total_training_steps() > 0 &&
      spec->actor().lr_warmup_steps() >= learns) {
    check.Fail("actor.lr_warmup_steps",
               absl::StrCat(spec->actor().lr_warmup_steps(),
                            " is not below trainer.total_training_steps (",
                            trainer->total_training_steps(), ")",
                            warms_critics ? " less algorithm.critic_warmup" : "", ", which the ",
                            spec->actor().lr_schedule(), " schedule needs to fall after it"));
  }
  BATON_NUMBER("trainer", trainer, save_freq, 50, 0, 10000000);
  BATON_NUMBER("trainer", trainer, test_freq, 0, 0, 10000000);
  if (!evaluates &&
      (trainer->test_freq() > 0 || trainer->val_before_train() || trainer->val_after_train())) {
    check.Fail("trainer.test_freq", "evaluation needs data.val_files");
  }
  BATON_BOOL(trainer, val_before_train, evaluates && !learns_first);
  if (learns_first && trainer->val_before_train()) {
    check.Fail("trainer.val_before_train",
               "kinds sft and reward_model evaluate with the update of a step, so there is no "
               "evaluation before the first one; set it to false");
  }
  BATON_BOOL(trainer, val_after_train, evaluates);
  BATON_NUMBER("trainer", trainer, max_checkpoints, 2, 0, 1000000);
  BATON_NUMBER("trainer", trainer, threads, 1, 1, 1024);
  BATON_CHOICE("trainer", trainer, keep_experience, "needed", "needed", "all");
}

}  // namespace

CheckedSpec CheckSpec(const v1::JobSpec& spec) {
  if (spec.kind() == v1::JOB_KIND_UNSPECIFIED) return CheckWithoutKind(spec);
  CheckedSpec out;
  out.effective = spec;
  v1::JobSpec* effective = &out.effective;
  Checker check(&out.violations);
  if (!CheckCounts(spec, &out.violations)) return out;
  CheckModel(effective, check);
  CheckData(effective, check);
  v1::ResourcesSpec* resources = effective->mutable_resources();
  if (spec.kind() == v1::JOB_KIND_RL) {
    CheckRollout(effective, check);
    CheckReward(effective, check);
    BATON_NUMBER("resources", resources, rollout_workers, 1, 1, 65536);
    BATON_NUMBER("resources", resources, reward_workers, 1, 1, 1024);
  } else {
    const std::string kind = spec.kind() == v1::JOB_KIND_SFT ? "sft" : "reward_model";
    const auto none = [&](bool given, const std::string& section, const std::string& what) {
      if (given) check.Fail(section, absl::StrCat("kind ", kind, " has no ", what, "; remove it"));
    };
    none(spec.has_reward(), "reward", "rewards");
    none(spec.has_rollout(), "rollout", "rollouts");
    none(spec.has_dataflow(), "dataflow", "dataflow of your own");
    none(spec.has_critic(), "critic", "critic");
    none(spec.has_cost_critic(), "cost_critic", "critic of costs");
    none(spec.algorithm().recompute_log_prob(), "algorithm.recompute_log_prob", "rollouts");
    none(spec.algorithm().cost_critic(), "algorithm.cost_critic", "critic of costs");
    none(spec.has_reference(), "reference", "reference");
    none(spec.has_reward_model(), "reward_model", "reward model but the one it trains");
    none(spec.has_cost_model(), "cost_model", "cost model");
    none(spec.has_judge(), "judge", "judge");
    resources->set_rollout_workers(0);
    resources->set_reward_workers(0);
  }
  CheckAlgorithm(effective, check);
  CheckTraining("actor", effective->mutable_actor(), check);
  CheckTrainer(effective, check);
  CheckTrainMix(effective, &out.violations);
  CheckEnding(effective, &out.violations);
  BATON_NUMBER("", effective, priority, 0, -kMaxPriority, kMaxPriority);
  out.dataflow = spec.has_dataflow() ? spec.dataflow() : MakeDataflow(*effective);
  const bool known = spec.has_dataflow() || out.dataflow.update_size() > 0;  // the preset
  if (spec.kind() == v1::JOB_KIND_RL && known) {
    if (out.dataflow.generate().empty()) out.dataflow.add_generate()->set_purpose("train");
    FillUpdates(*effective, &out.dataflow);  // what the spec adds to a graph is checked with it
    CheckDataflow(*effective, out.dataflow, &out.violations);
    CheckRoles(out.dataflow, effective, check);
    CheckAsked(out.dataflow, *effective, check);
  }
  FillUpdates(*effective, &out.dataflow);  // those of critics, which CheckRoles completed
  FillLossScale(*effective, &out.dataflow);
  if (known) {
    const size_t before = out.violations.size();
    CheckPlacement(spec, out.dataflow, &out.violations);
    if (out.violations.size() == before) FillPools(spec, out.dataflow, effective, &out.violations);
    CheckGenerationTp(*effective, out.dataflow, &out.violations);
    ShapeScoringRoles(out.dataflow, effective);
  }
  CheckSchedule(out.dataflow, effective, &out.violations);
  CheckSpeculation(out.dataflow, effective, &out.violations);
  CheckGroups(out.dataflow, spec, *effective, check);
  CheckPretraining(out.dataflow, *effective, check);
  CheckPatterns(*effective, out.dataflow, &out.violations);
  return out;
}

}  // namespace baton::controller
