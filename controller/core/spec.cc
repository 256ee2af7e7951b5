#include "controller/core/spec.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "controller/core/presets.h"

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
             std::initializer_list<absl::string_view> allowed) {
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

void CheckInit(v1::ModelInitSpec* init, Checker& check) {
  if (init->characters().empty()) {
    check.Fail("model.init.characters",
               "is missing; give every character the model may read or write, as one string");
  }
  BATON_NUMBER("model.init", init, hidden_size, 128, 8, 65536);
  BATON_NUMBER("model.init", init, num_hidden_layers, 2, 1, 256);
  BATON_NUMBER("model.init", init, num_attention_heads, 4, 1, 1024);
  BATON_NUMBER("model.init", init, max_position_embeddings, 2048, 8, 1 << 24);
  BATON_BOOL(init, tie_word_embeddings, true);
  const int heads = std::max(1, init->num_attention_heads());
  if (!init->has_num_key_value_heads()) init->set_num_key_value_heads(heads);
  if (!init->has_intermediate_size()) {
    const int64_t size = (int64_t{4} * init->hidden_size() + 7) / 8 * 8;
    init->set_intermediate_size(static_cast<int>(std::clamp<int64_t>(size, 8, 1 << 20)));
  }
  check.InRange("model.init.intermediate_size", init->intermediate_size(), 8, 1 << 20);
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
  BATON_CHOICE("model", model, chat_template, "none", "none", "chatml", "llama3");
  BATON_CHOICE("model", model, dtype, "float32", "float32", "bfloat16");
}

void CheckData(v1::JobSpec* spec, Checker& check) {
  v1::DataSpec* data = spec->mutable_data();
  if (data->train_files().empty()) {
    check.Fail("data.train_files", "is missing; give at least one JSONL file");
  }
  BATON_NUMBER("data", data, train_batch_size, 32, 1, 65536);
  BATON_NUMBER("data", data, val_max_samples, 0, 0, 1000000);
  BATON_NUMBER("data", data, max_prompt_length, 1024, 1, 1 << 24);
  BATON_NUMBER("data", data, max_response_length, 1024, 1, 1 << 24);
  BATON_BOOL(data, shuffle, true);
  if (!data->has_seed()) data->set_seed(1);
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
  BATON_NUMBER("rollout", rollout, n, 8, 1, 1024);
  BATON_NUMBER("rollout", rollout, temperature, 1.0, 0.0, 10.0);
  BATON_NUMBER("rollout", rollout, top_p, 1.0, 1e-6, 1.0);
  BATON_NUMBER("rollout", rollout, top_k, 0, 0, 1 << 24);
  BATON_NUMBER("rollout", rollout, max_num_seqs, 128, 1, 4096);
  BATON_NUMBER("rollout", rollout, kv_cache_bytes, int64_t{1} << 30, int64_t{1} << 16,
               int64_t{1} << 50);
  BATON_NUMBER("rollout", rollout, tensor_model_parallel_size, 1, 1, 1);
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
  if (reward->rules().empty() && reward->command().empty() && !reward->has_method()) {
    check.Fail("reward", "is missing; give `rules`, a `command` or a `method`");
  }
  for (int i = 0; i < reward->rules_size(); ++i) CheckRule(reward->mutable_rules(i), i, check);
  if (!reward->has_command_weight()) reward->set_command_weight(1);
  BATON_NUMBER("reward", reward, command_processes, 1, 1, 64);
  BATON_NUMBER("reward", reward, timeout_seconds, 30.0, 0.001, 86400.0);
  if (!reward->has_method()) reward->set_method("compute_reward");
  if (!reward->has_error_reward()) reward->set_error_reward(0);
}

void CheckAlgorithm(v1::JobSpec* spec, Checker& check) {
  v1::AlgorithmSpec* algorithm = spec->mutable_algorithm();
  if (!algorithm->has_preset()) algorithm->set_preset(DefaultPreset(spec->kind()));
  const std::vector<std::string> presets = PresetsOf(spec->kind());
  if (std::find(presets.begin(), presets.end(), algorithm->preset()) == presets.end()) {
    check.Fail("algorithm.preset", absl::StrCat("'", algorithm->preset(),
                                                "' is not one of: ", absl::StrJoin(presets, ", ")));
  }
  BATON_CHOICE("algorithm", algorithm, adv_estimator, "grpo", "grpo");
  BATON_NUMBER("algorithm", algorithm, gamma, 1.0, 0.0, 1.0);
  BATON_NUMBER("algorithm", algorithm, lam, 1.0, 0.0, 1.0);
  BATON_BOOL(algorithm, norm_adv_by_std_in_grpo, true);
  BATON_BOOL(algorithm, filter_groups, true);
  BATON_NUMBER("algorithm", algorithm, clip_ratio_low, 0.2, 0.0, 1.0);
  BATON_NUMBER("algorithm", algorithm, clip_ratio_high, 0.28, 0.0, 100.0);
  BATON_NUMBER("algorithm", algorithm, clip_ratio_c, 0.0, 0.0, 1000.0);
  if (algorithm->clip_ratio_c() > 0 && algorithm->clip_ratio_c() <= 1) {
    check.Fail("algorithm.clip_ratio_c",
               absl::StrCat(algorithm->clip_ratio_c(), " is not above 1 (or 0 for no dual clip)"));
  }
  BATON_CHOICE("algorithm", algorithm, loss_agg_mode, "token-mean", "token-mean",
               "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm");
  BATON_NUMBER("algorithm", algorithm, entropy_coeff, 0.0, -10.0, 10.0);
  if (algorithm->use_kl_loss()) {
    check.Fail("algorithm.use_kl_loss", "needs a reference role, which preset " +
                                            algorithm->preset() +
                                            " does not have; set it to false");
  }
  BATON_BOOL(algorithm, use_kl_loss, false);
  BATON_NUMBER("algorithm", algorithm, kl_loss_coef, 0.001, 0.0, 100.0);
  BATON_CHOICE("algorithm", algorithm, kl_loss_type, "k3", "k1", "k2", "k3");
  BATON_CHOICE("algorithm", algorithm, mode, "sync", "sync");
}

void CheckActor(v1::JobSpec* spec, Checker& check) {
  v1::ActorSpec* actor = spec->mutable_actor();
  BATON_NUMBER("actor", actor, lr, 1e-6, 0.0, 10.0);
  BATON_CHOICE("actor", actor, lr_schedule, "constant", "constant", "cosine", "linear");
  BATON_NUMBER("actor", actor, lr_warmup_steps, 0, 0, 10000000);
  BATON_NUMBER("actor", actor, min_lr_ratio, 0.0, 0.0, 1.0);
  BATON_NUMBER("actor", actor, beta1, 0.9, 0.0, 0.999999);
  BATON_NUMBER("actor", actor, beta2, 0.999, 0.0, 0.9999999);
  BATON_NUMBER("actor", actor, eps, 1e-8, 1e-20, 1.0);
  BATON_NUMBER("actor", actor, weight_decay, 0.01, 0.0, 10.0);
  BATON_NUMBER("actor", actor, grad_clip, 1.0, 0.0, 1e9);
  BATON_NUMBER("actor", actor, ppo_mini_batch_size, 0, 0, 1 << 24);
  BATON_NUMBER("actor", actor, ppo_epochs, 1, 1, 64);
  BATON_NUMBER("actor", actor, max_token_len, 16384, 1, 1 << 28);
  v1::ParallelSpec* parallel = actor->mutable_parallel();
  BATON_NUMBER("actor.parallel", parallel, tp, 1, 1, 1);
  BATON_NUMBER("actor.parallel", parallel, dp, 1, 1, 1);
}

void CheckTrainer(v1::JobSpec* spec, Checker& check) {
  v1::TrainerSpec* trainer = spec->mutable_trainer();
  const bool evaluates = spec->kind() == v1::JOB_KIND_RL && !spec->data().val_files().empty();
  if (!trainer->has_total_training_steps()) {
    check.Fail("trainer.total_training_steps", "is missing; give the number of steps to train");
  } else {
    check.InRange<int64_t>("trainer.total_training_steps", trainer->total_training_steps(), 1,
                           10000000);
  }
  if (spec->actor().lr_schedule() != "constant" && trainer->total_training_steps() > 0 &&
      spec->actor().lr_warmup_steps() >= trainer->total_training_steps()) {
    check.Fail("actor.lr_warmup_steps",
               absl::StrCat(spec->actor().lr_warmup_steps(),
                            " is not below trainer.total_training_steps (",
                            trainer->total_training_steps(), "), which the ",
                            spec->actor().lr_schedule(), " schedule needs to fall after it"));
  }
  BATON_NUMBER("trainer", trainer, save_freq, 50, 0, 10000000);
  BATON_NUMBER("trainer", trainer, test_freq, 0, 0, 10000000);
  if (!evaluates &&
      (trainer->test_freq() > 0 || trainer->val_before_train() || trainer->val_after_train())) {
    check.Fail("trainer.test_freq", spec->kind() == v1::JOB_KIND_RL
                                        ? "evaluation needs data.val_files"
                                        : "evaluation needs rollouts; only kind rl evaluates");
  }
  BATON_BOOL(trainer, val_before_train, evaluates);
  BATON_BOOL(trainer, val_after_train, evaluates);
  BATON_NUMBER("trainer", trainer, max_checkpoints, 2, 0, 1000000);
  BATON_NUMBER("trainer", trainer, threads, 1, 1, 1024);
}

}  // namespace

CheckedSpec CheckSpec(const v1::JobSpec& spec) {
  CheckedSpec out;
  out.effective = spec;
  v1::JobSpec* effective = &out.effective;
  Checker check(&out.violations);
  if (spec.kind() == v1::JOB_KIND_UNSPECIFIED) {
    check.Fail("kind", "is missing; one of: rl, sft");
    return out;
  }
  if (spec.kind() != v1::JOB_KIND_RL && spec.kind() != v1::JOB_KIND_SFT) {
    check.Fail("kind", "this version trains kinds rl and sft");
    return out;
  }
  CheckModel(effective, check);
  CheckData(effective, check);
  v1::ResourcesSpec* resources = effective->mutable_resources();
  if (spec.kind() == v1::JOB_KIND_RL) {
    CheckRollout(effective, check);
    CheckReward(effective, check);
    BATON_NUMBER("resources", resources, rollout_workers, 1, 1, 4096);
    BATON_NUMBER("resources", resources, reward_workers, 1, 1, 1024);
  } else {
    if (spec.has_reward()) check.Fail("reward", "kind sft has no rewards; remove it");
    if (spec.has_rollout()) check.Fail("rollout", "kind sft has no rollouts; remove it");
    resources->set_rollout_workers(0);
    resources->set_reward_workers(0);
  }
  CheckAlgorithm(effective, check);
  CheckActor(effective, check);
  CheckTrainer(effective, check);
  BATON_NUMBER("", effective, priority, 0, -1000, 1000);
  out.dataflow = MakeDataflow(*effective);
  return out;
}

}  // namespace baton::controller
