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

// verl: trainer/config/ppo_trainer.yaml and what it includes.
const std::vector<OtherName>& VerlNames() {
  static const auto* const names = new std::vector<OtherName>{
      {"actor_rollout_ref.model.path", "model.path", ""},
      {"actor_rollout_ref.model.custom_chat_template", "model.chat_template", ""},
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
      {"actor_rollout_ref.actor.fsdp_config", "", kSharding},
      {"actor_rollout_ref.actor.strategy", "", kSharding},
      {"actor_rollout_ref.ref.fsdp_config", "", kSharding},
      {"actor_rollout_ref.ref.strategy", "", kSharding},
      {"actor_rollout_ref.ref.log_prob_micro_batch_size", "reference.max_token_len", kTokens},
      {"actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu", "reference.max_token_len",
       kTokens},
      {"actor_rollout_ref.ref.log_prob_max_token_len_per_gpu", "reference.max_token_len", ""},
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
      {"critic.ppo_epochs", "critic.train.ppo_epochs", ""},
      {"critic.ppo_mini_batch_size", "critic.train.ppo_mini_batch_size",
       "it counts sequences, which are the prompts times rollout.n"},
      {"critic.ppo_micro_batch_size_per_gpu", "critic.train.max_token_len", kTokens},
      {"critic.ppo_max_token_len_per_gpu", "critic.train.max_token_len", ""},
      {"critic.grad_clip", "critic.train.grad_clip", ""},
      {"custom_reward_function.path", "reward.command", "a program that reads and writes lines"},
      {"custom_reward_function.name", "reward.command", "a program that reads and writes lines"},
      {"reward_model.reward_manager", "reward.rules", ""},
      {"reward_model.enable", "reward_model.model.path", "without the section there is none"},
      {"algorithm.use_kl_in_reward", "algorithm.advantage.use_kl_in_reward", ""},
      {"algorithm.kl_penalty", "algorithm.advantage.kl_penalty", ""},
      {"algorithm.kl_ctrl.type", "algorithm.advantage.kl_ctrl", ""},
      {"algorithm.kl_ctrl.kl_coef", "algorithm.advantage.kl_coef", ""},
      {"algorithm.kl_ctrl.target_kl", "algorithm.advantage.target_kl", ""},
      {"algorithm.kl_ctrl.horizon", "algorithm.advantage.horizon", ""},
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
      {"trainer.logger", "", kLogs},
      {"trainer.log_val_generations", "", "remove it: `baton samples` shows responses"},
      {"trainer.rollout_data_dir", "trainer.keep_experience", "`baton samples` shows responses"},
      {"trainer.resume_mode", "", kResume},
      {"trainer.resume_from_path", "", kResume},
  };
  return *names;
}

// TRL: GRPOConfig, SFTConfig and the TrainingArguments of transformers below them; then common
// names of several trainers.
const std::vector<OtherName>& PlainNames() {
  static const auto* const names = new std::vector<OtherName>{
      {"model_name_or_path", "model.path", ""},
      {"dataset_name", "data.train_files", "JSONL files"},
      {"bf16", "model.dtype", "bfloat16"},
      {"torch_dtype", "model.dtype", ""},
      {"num_generations", "rollout.n", ""},
      {"num_generations_eval", "rollout.val.n", ""},
      {"max_completion_length", "data.max_response_length", ""},
      {"max_new_tokens", "data.max_response_length", ""},
      {"max_tokens", "data.max_response_length", ""},
      {"max_length", "data.max_response_length", "the prompt has data.max_prompt_length"},
      {"stop_strings", "rollout.stop", ""},
      {"num_train_epochs", "trainer.total_epochs", ""},
      {"num_epochs", "trainer.total_epochs", ""},
      {"epochs", "trainer.total_epochs", ""},
      {"max_steps", "trainer.total_training_steps", ""},
      {"total_steps", "trainer.total_training_steps", ""},
      {"num_steps", "trainer.total_training_steps", ""},
      {"per_device_train_batch_size", "data.train_batch_size",
       "it counts the prompts (kind sft: examples) of a step over all workers"},
      {"generation_batch_size", "data.train_batch_size",
       "it counts the prompts of a step, each with rollout.n responses"},
      {"batch_size", "data.train_batch_size",
       "it counts the prompts (kind sft: examples) of a step"},
      {"gradient_accumulation_steps", "actor.ppo_mini_batch_size",
       "it counts the sequences of an optimizer update"},
      {"num_iterations", "actor.ppo_epochs", ""},
      {"learning_rate", "actor.lr", ""},
      {"lr_scheduler_type", "actor.lr_schedule", ""},
      {"warmup_steps", "actor.lr_warmup_steps", ""},
      {"warmup_ratio", "actor.lr_warmup_steps", "it counts steps"},
      {"adam_beta1", "actor.beta1", ""},
      {"adam_beta2", "actor.beta2", ""},
      {"adam_epsilon", "actor.eps", ""},
      {"max_grad_norm", "actor.grad_clip", ""},
      {"beta", "algorithm.kl_loss_coef", "with algorithm.use_kl_loss: true"},
      {"kl_coef", "algorithm.advantage.kl_coef", "of the KL in the reward"},
      {"epsilon", "algorithm.clip_ratio_low", ""},
      {"epsilon_high", "algorithm.clip_ratio_high", ""},
      {"cliprange", "algorithm.clip_ratio_low", "the upper bound is algorithm.clip_ratio_high"},
      {"delta", "algorithm.clip_ratio_c", ""},
      {"loss_type", "algorithm.loss_agg_mode", "the names differ; docs/algorithms.md has them"},
      {"scale_rewards", "algorithm.norm_adv_by_std_in_grpo", "true or false"},
      {"importance_sampling_level", "algorithm.preset", "gspo has ratios of sequences"},
      {"reward_weights", "reward.rules", "each rule has its weight"},
      {"reward_funcs", "reward.command", "a program that reads and writes lines"},
      {"save_steps", "trainer.save_freq", "0: only at the end"},
      {"eval_steps", "trainer.test_freq", "0: only at the end"},
      {"eval_on_start", "trainer.val_before_train", ""},
      {"save_total_limit", "trainer.max_checkpoints", "0 keeps all"},
      {"metric_for_best_model", "trainer.keep_best", ""},
      {"load_best_model_at_end", "trainer.keep_best", "the name of a metric"},
      {"greater_is_better", "trainer.keep_best_mode", "max or min"},
      {"shuffle_dataset", "data.shuffle", ""},
      {"seed", "data.seed", ""},
      {"data_seed", "data.seed", ""},
      {"use_vllm", "", kEngine},
      {"vllm_mode", "", kEngine},
      {"output_dir", "", kFolder},
      {"run_name", "", kName},
      {"report_to", "", kLogs},
      {"logging_steps", "", kLogs},
      {"resume_from_checkpoint", "", kResume},
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
    names->insert(names->end(), PlainNames().begin(), PlainNames().end());
    return names;
  }();
  return *all;
}

const OtherName* FindOtherName(absl::string_view path) {
  const OtherName* found = Find(VerlNames(), path);
  if (found == nullptr) found = Find(VerlNames(), absl::StrCat(kVerlActor, path));
  if (found == nullptr) found = Find(PlainNames(), path.substr(path.rfind('.') + 1));
  return found;
}

const OtherValue* FindOtherValue(absl::string_view path, int64_t value) {
  for (const OtherValue& other : OtherValues()) {
    if (other.path == path && other.value == value) return &other;
  }
  return nullptr;
}

}  // namespace baton
