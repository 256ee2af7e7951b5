#include "sdk/client/other_names.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr absl::string_view kVerlActor = "actor_rollout_ref.";

constexpr char kTokens[] =
    "micro-batches are bounded by their tokens, so what counts sequences is left out";
constexpr char kWorkers[] = "resources and `parallel` of each role say how many workers it has";
constexpr char kFolder[] = "remove it: a job's files are in its folder at the controller";
constexpr char kName[] = "remove it: `baton submit --name` names the job";
constexpr char kProject[] = "remove it: `baton --project` names the project";
constexpr char kResume[] = "remove it: `baton resume` and `baton submit --from` go on from a job";
constexpr char kLogs[] = "remove it: `baton watch`, `baton show` and /metrics have all metrics";
constexpr char kEngine[] = "remove it: rollouts have Baton's own engine";
constexpr char kSharding[] = "remove it: Baton keeps whole weights, or slices of tensor ranks";
constexpr char kAllWeights[] = "remove it: all weights are trained";
constexpr char kSampling[] = "remove it: rollouts know temperature, top_p and top_k";
constexpr char kTrustedCode[] = "remove it: no code of a model's folder is run";
constexpr char kRecomputation[] = "remove it: memory is bounded by actor.max_token_len";
constexpr char kCommand[] = "a program that reads and writes lines";
constexpr char kOptimizer[] = "remove it: the optimizer is AdamW";

// verl 0.9.1: trainer/config/ppo_trainer.yaml and what it includes.
const std::vector<OtherName>& VerlNames() {
  static const auto* const names = new std::vector<OtherName>{
      {"actor_rollout_ref.model.path", "model.path", ""},
      {"actor_rollout_ref.model.custom_chat_template", "model.chat_template", ""},
      {"actor_rollout_ref.model.trust_remote_code", "", kTrustedCode},
      {"actor_rollout_ref.model.enable_gradient_checkpointing", "", kRecomputation},
      {"actor_rollout_ref.model.use_remove_padding", "", "remove it: there is no padding"},
      {"actor_rollout_ref.model.lora_rank", "", kAllWeights},
      {"actor_rollout_ref.model.lora_alpha", "", kAllWeights},
      {"actor_rollout_ref.actor.optim.lr", "actor.lr", ""},
      {"actor_rollout_ref.actor.optim.lr_warmup_steps", "actor.lr_warmup_steps", "0 is none"},
      {"actor_rollout_ref.actor.optim.lr_warmup_steps_ratio", "actor.lr_warmup_steps",
       "it counts steps"},
      {"actor_rollout_ref.actor.optim.warmup_style", "actor.lr_schedule", ""},
      {"actor_rollout_ref.actor.optim.lr_scheduler_type", "actor.lr_schedule", ""},
      {"actor_rollout_ref.actor.optim.min_lr_ratio", "actor.min_lr_ratio", ""},
      {"actor_rollout_ref.actor.optim.weight_decay", "actor.weight_decay", ""},
      {"actor_rollout_ref.actor.optim.betas", "actor.beta1", "the second is actor.beta2"},
      {"actor_rollout_ref.actor.optim.clip_grad", "actor.grad_clip", ""},
      {"actor_rollout_ref.actor.optim.total_training_steps", "trainer.total_training_steps", ""},
      {"actor_rollout_ref.actor.grad_clip", "actor.grad_clip", ""},
      {"actor_rollout_ref.actor.ppo_epochs", "actor.ppo_epochs", ""},
      {"actor_rollout_ref.actor.ppo_mini_batch_size", "actor.ppo_mini_batch_size",
       "it counts sequences, which are the prompts times rollout.n"},
      {"actor_rollout_ref.actor.ppo_micro_batch_size", "actor.max_token_len", kTokens},
      {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "actor.max_token_len", kTokens},
      {"actor_rollout_ref.actor.ppo_max_token_len_per_gpu", "actor.max_token_len", ""},
      {"actor_rollout_ref.actor.use_dynamic_bsz", "actor.max_token_len", kTokens},
      {"actor_rollout_ref.actor.clip_ratio", "algorithm.clip_ratio_low",
       "the upper bound is algorithm.clip_ratio_high"},
      {"actor_rollout_ref.actor.clip_ratio_low", "algorithm.clip_ratio_low", ""},
      {"actor_rollout_ref.actor.clip_ratio_high", "algorithm.clip_ratio_high", ""},
      {"actor_rollout_ref.actor.clip_ratio_c", "algorithm.clip_ratio_c", ""},
      {"actor_rollout_ref.actor.loss_agg_mode", "algorithm.loss_agg_mode", ""},
      {"actor_rollout_ref.actor.entropy_coeff", "algorithm.entropy_coeff", ""},
      {"actor_rollout_ref.actor.use_kl_loss", "algorithm.use_kl_loss", ""},
      {"actor_rollout_ref.actor.kl_loss_coef", "algorithm.kl_loss_coef", ""},
      {"actor_rollout_ref.actor.kl_loss_type", "algorithm.kl_loss_type", ""},
      {"actor_rollout_ref.actor.loss_scale_factor", "algorithm.loss.loss_scale_factor", ""},
      {"actor_rollout_ref.actor.policy_loss.loss_mode", "algorithm.preset",
       "gspo and cispo have losses of their own"},
      {"actor_rollout_ref.actor.optim.optimizer", "", kOptimizer},
      {"actor_rollout_ref.actor.fsdp_config", "", kSharding},
      {"actor_rollout_ref.actor.strategy", "", kSharding},
      {"actor_rollout_ref.ref.fsdp_config", "", kSharding},
      {"actor_rollout_ref.ref.strategy", "", kSharding},
      {"actor_rollout_ref.ref.log_prob_micro_batch_size", "reference.max_token_len", kTokens},
      {"actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu", "reference.max_token_len",
       kTokens},
      {"actor_rollout_ref.ref.log_prob_max_token_len_per_gpu", "reference.max_token_len", ""},
      {"actor_rollout_ref.ref.log_prob_use_dynamic_bsz", "reference.max_token_len", kTokens},
      {"actor_rollout_ref.rollout.n", "rollout.n", ""},
      {"actor_rollout_ref.rollout.temperature", "rollout.temperature", ""},
      {"actor_rollout_ref.rollout.top_p", "rollout.top_p", ""},
      {"actor_rollout_ref.rollout.top_k", "rollout.top_k", "0 takes all"},
      {"actor_rollout_ref.rollout.max_num_seqs", "rollout.max_num_seqs", ""},
      {"actor_rollout_ref.rollout.tensor_model_parallel_size", "rollout.tensor_model_parallel_size",
       "elsewhere than on the actor's workers a replica is one worker"},
      {"actor_rollout_ref.rollout.prompt_length", "data.max_prompt_length", ""},
      {"actor_rollout_ref.rollout.response_length", "data.max_response_length", ""},
      {"actor_rollout_ref.rollout.max_model_len", "data.max_response_length",
       "with data.max_prompt_length it bounds what the model reads"},
      {"actor_rollout_ref.rollout.do_sample", "rollout.temperature", "0 is greedy"},
      {"actor_rollout_ref.rollout.seed", "data.seed", ""},
      {"actor_rollout_ref.rollout.calculate_log_probs", "",
       "remove it: rollouts always give their log-probs"},
      {"actor_rollout_ref.rollout.log_prob_micro_batch_size", "actor.max_token_len", kTokens},
      {"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu", "actor.max_token_len",
       kTokens},
      {"actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu", "actor.max_token_len", ""},
      {"actor_rollout_ref.rollout.log_prob_use_dynamic_bsz", "actor.max_token_len", kTokens},
      {"actor_rollout_ref.rollout.max_num_batched_tokens", "", kEngine},
      {"actor_rollout_ref.rollout.enable_chunked_prefill", "", kEngine},
      {"actor_rollout_ref.rollout.enable_prefix_caching", "", kEngine},
      {"actor_rollout_ref.rollout.load_format", "", kEngine},
      {"actor_rollout_ref.rollout.dtype", "model.dtype", ""},
      {"actor_rollout_ref.rollout.gpu_memory_utilization", "rollout.kv_cache_bytes", "in bytes"},
      {"actor_rollout_ref.rollout.mode", "algorithm.mode", "async lets generation run ahead"},
      {"actor_rollout_ref.rollout.name", "", kEngine},
      {"actor_rollout_ref.rollout.enforce_eager", "", kEngine},
      {"actor_rollout_ref.rollout.free_cache_engine", "", kEngine},
      {"actor_rollout_ref.rollout.engine_kwargs", "", kEngine},
      {"actor_rollout_ref.rollout.val_kwargs.n", "rollout.val.n", ""},
      {"actor_rollout_ref.rollout.val_kwargs.temperature", "rollout.val.temperature", ""},
      {"actor_rollout_ref.rollout.val_kwargs.top_p", "rollout.val.top_p", ""},
      {"actor_rollout_ref.rollout.val_kwargs.top_k", "rollout.val.top_k", "0 takes all"},
      {"actor_rollout_ref.rollout.val_kwargs.do_sample", "rollout.val.temperature", "0 is greedy"},
      {"critic.optim.lr", "critic.train.lr", ""},
      {"critic.optim.weight_decay", "critic.train.weight_decay", ""},
      {"critic.optim.lr_warmup_steps", "critic.train.lr_warmup_steps", "0 is none"},
      {"critic.optim.lr_warmup_steps_ratio", "critic.train.lr_warmup_steps", "it counts steps"},
      {"critic.ppo_micro_batch_size", "critic.train.max_token_len", kTokens},
      {"critic.use_dynamic_bsz", "critic.train.max_token_len", kTokens},
      {"critic.strategy", "", kSharding},
      {"critic.ppo_epochs", "critic.train.ppo_epochs", ""},
      {"critic.ppo_mini_batch_size", "critic.train.ppo_mini_batch_size",
       "it counts sequences, which are the prompts times rollout.n"},
      {"critic.ppo_micro_batch_size_per_gpu", "critic.train.max_token_len", kTokens},
      {"critic.ppo_max_token_len_per_gpu", "critic.train.max_token_len", ""},
      {"critic.grad_clip", "critic.train.grad_clip", ""},
      {"custom_reward_function.path", "reward.command", kCommand},
      {"custom_reward_function.name", "reward.command", kCommand},
      {"reward.custom_reward_function.path", "reward.command", kCommand},
      {"reward.custom_reward_function.name", "reward.command", kCommand},
      {"reward.reward_manager.name", "reward.rules", ""},
      {"reward.num_workers", "resources.reward_workers", ""},
      {"reward.reward_model.enable", "reward_model.model.path",
       "without the section there is none"},
      {"reward.reward_model.model_path", "reward_model.model.path", ""},
      {"reward_model.reward_manager", "reward.rules", ""},
      {"reward_model.enable", "reward_model.model.path", "without the section there is none"},
      {"algorithm.use_kl_in_reward", "algorithm.advantage.use_kl_in_reward", ""},
      {"algorithm.kl_penalty", "algorithm.advantage.kl_penalty", ""},
      {"algorithm.kl_ctrl.type", "algorithm.advantage.kl_ctrl", ""},
      {"algorithm.kl_ctrl.kl_coef", "algorithm.advantage.kl_coef", ""},
      {"algorithm.kl_ctrl.target_kl", "algorithm.advantage.target_kl", ""},
      {"algorithm.kl_ctrl.horizon", "algorithm.advantage.horizon", ""},
      {"algorithm.filter_groups.enable", "algorithm.dynamic_sampling",
       "with algorithm.filter_groups: true"},
      {"algorithm.filter_groups.metric", "algorithm.advantage.filter_metric",
       "reward, or the `out` of a score node"},
      {"algorithm.filter_groups.max_num_gen_batches", "algorithm.max_num_gen_batches",
       "it has a limit, at most 1000"},
      {"algorithm.rollout_correction.rollout_is", "algorithm.loss.rollout_is", ""},
      {"algorithm.rollout_correction.rollout_is_threshold", "algorithm.loss.rollout_is_threshold",
       ""},
      {"algorithm.rollout_correction.rollout_is_batch_normalize",
       "algorithm.loss.rollout_is_batch_normalize", ""},
      {"algorithm.rollout_correction.rollout_rs", "algorithm.loss.rollout_rs", ""},
      {"algorithm.rollout_correction.rollout_rs_threshold", "algorithm.loss.rollout_rs_threshold",
       ""},
      {"data.reward_fn_key", "data.source_key", ""},
      {"data.apply_chat_template_kwargs", "model.chat_template_kwargs", ""},
      {"data.trust_remote_code", "", kTrustedCode},
      {"data.return_raw_chat", "", "remove it: prompts of messages stay messages"},
      {"data.train_max_samples", "data.train_files", "all of their lines are used"},
      {"data.filter_overlong_prompts_workers", "data.filter_overlong_prompts", ""},
      {"data.custom_cls.path", "data.train_files", "JSONL files"},
      {"data.val_batch_size", "data.val_max_samples", "an evaluation takes all prompts at once"},
      {"data.truncation", "data.filter_overlong_prompts", "prompts are never cut"},
      {"trainer.critic_warmup", "algorithm.critic_warmup", ""},
      {"trainer.max_actor_ckpt_to_keep", "trainer.max_checkpoints", "0 keeps all"},
      {"trainer.max_critic_ckpt_to_keep", "trainer.max_checkpoints",
       "a checkpoint holds all roles that train; 0 keeps all"},
      {"trainer.nnodes", "resources.rollout_workers", kWorkers},
      {"trainer.n_gpus_per_node", "resources.rollout_workers", kWorkers},
      {"trainer.project_name", "", kProject},
      {"trainer.experiment_name", "", kName},
      {"trainer.default_local_dir", "", kFolder},
      {"trainer.default_hdfs_dir", "", kFolder},
      {"trainer.device", "", "remove it: `baton-worker --device` says it"},
      {"trainer.balance_batch", "", "remove it: ranks get even shares of the tokens"},
      {"trainer.logger", "", kLogs},
      {"trainer.log_val_generations", "", "remove it: `baton samples` shows responses"},
      {"trainer.rollout_data_dir", "trainer.keep_experience", "`baton samples` shows responses"},
      {"trainer.validation_data_dir", "trainer.keep_experience", "`baton samples` shows responses"},
      {"trainer.resume_mode", "", kResume},
      {"trainer.resume_from_path", "", kResume},
  };
  return *names;
}

// TRL 1.16.0: GRPOConfig, SFTConfig, RewardConfig, ModelConfig, ScriptArguments, and the
// TrainingArguments of transformers 5.24 below them.
const std::vector<OtherName>& TrlNames() {
  static const auto* const names = new std::vector<OtherName>{
      {"model_name_or_path", "model.path", ""},
      {"dtype", "model.dtype", ""},
      {"bf16", "model.dtype", "bfloat16"},
      {"fp16", "model.dtype", "float32 or bfloat16"},
      {"trust_remote_code", "", kTrustedCode},
      {"use_peft", "", kAllWeights},
      {"lora_r", "", kAllWeights},
      {"lora_alpha", "", kAllWeights},
      {"chat_template_kwargs", "model.chat_template_kwargs", ""},
      {"dataset_name", "data.train_files", "JSONL files"},
      {"dataset_text_field", "data.prompt_key",
       "a text without a prompt is a response to an empty one, which is not supported"},
      {"shuffle_dataset", "data.shuffle", ""},
      {"seed", "data.seed", ""},
      {"data_seed", "data.seed", ""},
      {"num_generations", "rollout.n", ""},
      {"num_generations_eval", "rollout.val.n", ""},
      {"temperature", "rollout.temperature", ""},
      {"top_p", "rollout.top_p", ""},
      {"top_k", "rollout.top_k", "0 takes all"},
      {"min_p", "", kSampling},
      {"repetition_penalty", "", kSampling},
      {"generation_kwargs", "", kSampling},
      {"max_completion_length", "data.max_response_length", ""},
      {"max_length", "data.max_response_length", "the prompt has data.max_prompt_length"},
      {"completion_only_loss", "data.loss_on", "a prompt is never trained on"},
      {"assistant_only_loss", "data.loss_on", "all_assistant"},
      {"packing", "", "remove it: micro-batches have no padding"},
      {"num_train_epochs", "trainer.total_epochs", ""},
      {"max_steps", "trainer.total_training_steps", ""},
      {"per_device_train_batch_size", "data.train_batch_size",
       "it counts the prompts (kind sft: examples) of a step over all workers"},
      {"per_device_eval_batch_size", "data.val_max_samples",
       "an evaluation takes all prompts at once"},
      {"generation_batch_size", "data.train_batch_size",
       "it counts the prompts of a step, each with rollout.n responses"},
      {"gradient_accumulation_steps", "actor.ppo_mini_batch_size",
       "it counts the sequences of an optimizer update"},
      {"steps_per_generation", "actor.ppo_mini_batch_size",
       "it counts the sequences of an optimizer update"},
      {"num_iterations", "actor.ppo_epochs", ""},
      {"gradient_checkpointing", "", kRecomputation},
      {"learning_rate", "actor.lr", ""},
      {"lr_scheduler_type", "actor.lr_schedule", ""},
      {"warmup_steps", "actor.lr_warmup_steps", ""},
      {"adam_beta1", "actor.beta1", ""},
      {"adam_beta2", "actor.beta2", ""},
      {"adam_epsilon", "actor.eps", ""},
      {"weight_decay", "actor.weight_decay", ""},
      {"max_grad_norm", "actor.grad_clip", ""},
      {"beta", "algorithm.kl_loss_coef", "with algorithm.use_kl_loss: true"},
      {"epsilon", "algorithm.clip_ratio_low", ""},
      {"epsilon_high", "algorithm.clip_ratio_high", ""},
      {"delta", "algorithm.clip_ratio_c", ""},
      {"entropy_coef", "algorithm.entropy_coeff", ""},
      {"loss_type", "algorithm.loss_agg_mode", "the names differ; docs/algorithms.md has them"},
      {"scale_rewards", "algorithm.norm_adv_by_std_in_grpo", "true or false"},
      {"importance_sampling_level", "algorithm.preset", "gspo has ratios of sequences"},
      {"reward_weights", "reward.rules", "each rule has its weight"},
      {"save_steps", "trainer.save_freq", "0: only at the end"},
      {"save_strategy", "trainer.save_freq", "0: only at the end"},
      {"eval_steps", "trainer.test_freq", "0: only at the end"},
      {"eval_strategy", "trainer.test_freq", "0: only at the end"},
      {"eval_on_start", "trainer.val_before_train", ""},
      {"save_total_limit", "trainer.max_checkpoints", "0 keeps all"},
      {"metric_for_best_model", "trainer.keep_best", ""},
      {"load_best_model_at_end", "trainer.keep_best", "the name of a metric"},
      {"greater_is_better", "trainer.keep_best_mode", "max or min"},
      {"use_vllm", "", kEngine},
      {"vllm_mode", "", kEngine},
      {"vllm_gpu_memory_utilization", "rollout.kv_cache_bytes", "in bytes"},
      {"vllm_tensor_parallel_size", "rollout.tensor_model_parallel_size",
       "elsewhere than on the actor's workers a replica is one worker"},
      {"output_dir", "", kFolder},
      {"run_name", "", kName},
      {"report_to", "", kLogs},
      {"logging_steps", "", kLogs},
      {"log_completions", "", "remove it: `baton samples` shows responses"},
      {"resume_from_checkpoint", "", kResume},
      // An argument of its trainers, and not of a config.
      {"reward_funcs", "reward.command", kCommand},
  };
  return *names;
}

// Names of other programs.
const std::vector<OtherName>& PlainNames() {
  static const auto* const names = new std::vector<OtherName>{
      // Of earlier releases: transformers 4.57, TRL 0.19.
      {"torch_dtype", "model.dtype", ""},
      {"warmup_ratio", "actor.lr_warmup_steps", "it counts steps"},
      {"max_prompt_length", "data.max_prompt_length", ""},
      {"max_seq_length", "data.max_response_length", "the prompt has data.max_prompt_length"},
      {"num_ppo_epochs", "actor.ppo_epochs", ""},
      {"kl_coef", "algorithm.advantage.kl_coef", "of the KL in the reward"},
      {"cliprange", "algorithm.clip_ratio_low", "the upper bound is algorithm.clip_ratio_high"},
      {"num_epochs", "trainer.total_epochs", ""},
      // Of torchtune 0.6's recipes.
      {"epochs", "trainer.total_epochs", ""},
      {"batch_size", "data.train_batch_size",
       "it counts the prompts (kind sft: examples) of a step"},
      // Of generation: transformers' GenerationConfig, vLLM's SamplingParams.
      {"max_new_tokens", "data.max_response_length", ""},
      {"max_tokens", "data.max_response_length", ""},
      {"stop_strings", "rollout.stop", ""},
  };
  return *names;
}

const std::vector<OtherValue>& OtherValues() {
  static const auto* const values = new std::vector<OtherValue>{
      {"rollout.top_k", -1, 0, ""},
      {"rollout.val.top_k", -1, 0, ""},
      {"data.val_max_samples", -1, 0, ""},
      {"trainer.save_freq", -1, std::nullopt, "0 saves only at the end; a job always saves there"},
      {"trainer.test_freq", -1, std::nullopt,
       "0 evaluates only at the end, and val_after_train: false not even there"},
      {"trainer.total_training_steps", -1, std::nullopt,
       "remove it, and give trainer.total_epochs instead"},
      {"trainer.max_checkpoints", -1, std::nullopt, "0 keeps all"},
      {"actor.lr_warmup_steps", -1, std::nullopt, "0 is none"},
  };
  return *values;
}

/// Sections of ours that are one value elsewhere, and what is that value here.
struct OtherShape {
  absl::string_view path;
  absl::string_view instead;
};

constexpr OtherShape kOtherShapes[] = {
    {"algorithm", "the name of an algorithm is algorithm.preset"},
    {"algorithm.advantage", "the name of an estimator is algorithm.adv_estimator"},
    {"algorithm.loss", "algorithm.preset chooses the loss, algorithm.loss_agg_mode its mean"},
    {"data", "files of prompts are data.train_files"},
    {"reward", "rules are reward.rules, a program is reward.command"},
    {"trainer", "a number of steps is trainer.total_training_steps"},
    {"resources", "a number of workers is resources.rollout_workers"},
    {"rollout", "a number of responses is rollout.n"},
};

const OtherName* Find(const std::vector<OtherName>& names, absl::string_view name) {
  for (const OtherName& other : names) {
    if (other.name == name) return &other;
  }
  return nullptr;
}

}  // namespace

const std::vector<OtherName>& OtherNames() {
  static const auto* const all = [] {
    auto* const names = new std::vector<OtherName>(VerlNames());
    names->insert(names->end(), TrlNames().begin(), TrlNames().end());
    names->insert(names->end(), PlainNames().begin(), PlainNames().end());
    return names;
  }();
  return *all;
}

const OtherName* FindOtherName(absl::string_view path) {
  const OtherName* found = Find(VerlNames(), path);
  if (found == nullptr) found = Find(VerlNames(), absl::StrCat(kVerlActor, path));
  const absl::string_view key = path.substr(path.rfind('.') + 1);
  if (found == nullptr) found = Find(TrlNames(), key);
  if (found == nullptr) found = Find(PlainNames(), key);
  return found;
}

std::string InsteadOfValue(absl::string_view path) {
  for (const OtherShape& shape : kOtherShapes) {
    if (shape.path == path) return std::string(shape.instead);
  }
  const absl::string_view key = path.substr(path.rfind('.') + 1);
  if (key == "model") return absl::StrCat("a model's folder is ", path, ".path");
  if (key == "chat_template_kwargs") {
    return absl::StrCat("write its keys without quotes around them all: ", key,
                        ": {enable_thinking: false}");
  }
  for (const absl::string_view role :
       {"critic", "cost_critic", "reference", "reward_model", "cost_model", "judge"}) {
    if (path == role) return absl::StrCat("its model's folder is ", role, ".model.path");
  }
  return "";
}

const OtherValue* FindOtherValue(absl::string_view path, int64_t value) {
  for (const OtherValue& other : OtherValues()) {
    if (other.path == path && other.value == value) return &other;
  }
  return nullptr;
}

}  // namespace baton
