// Features that a worker may promise beyond its methods (worker_service.proto: Hello.features).
#ifndef BATON_SDK_COMMON_CONTRACTS_WORKER_FEATURES_H_
#define BATON_SDK_COMMON_CONTRACTS_WORKER_FEATURES_H_

#include <string>
#include <vector>

namespace baton {

/// Role reward, method compute_reward: it computes the rules of a spec's reward.
inline constexpr char kRewardRulesFeature[] = "reward_rules";

/// Role reward, method compute_reward: it runs the command of a spec's reward.
inline constexpr char kRewardCommandFeature[] = "reward_command";

/// Roles actor and rollout: versions go to the relay, and come from there, under Task.job_uid.
inline constexpr char kJobUidFeature[] = "job_uid";

/// Roles that read prompts: it knows every value of a model's chat_template, renders messages and
/// tools by the model's own template, and refuses messages where there is none.
inline constexpr char kChatTemplatesFeature[] = "chat_templates";

/// Roles that read prompts: they give a model's template the variables and the day of its spec
/// (chat_template_kwargs, chat_template_date) and of each prompt, and train on a response's turns
/// (Trajectory.response_messages); rollouts say what the template began a response with.
inline constexpr char kChatSettingsFeature[] = "chat_settings";

/// Role actor, kind sft: trajectories of purpose EVAL in the batch of an update are measured after
/// it, and not trained on.
inline constexpr char kSftEvaluationFeature[] = "sft_evaluation";

/// Roles that load models: this and the `model_type` of a config.json, e.g. "model_qwen3", of
/// those decoders that kFeatureModels names. All workers load the others: Llama and Qwen2.
inline constexpr char kModelFeaturePrefix[] = "model_";
inline constexpr const char* kFeatureModels[] = {"mistral", "qwen3",   "smollm3",    "phi3",
                                                 "olmo2",   "granite", "gemma3_text"};

/// Roles that read prompts: it reads tokenizers with byte_fallback (Llama-2, Mistral).
inline constexpr char kByteFallbackFeature[] = "byte_fallback_tokenizers";

/// The features of a worker that loads every model that Baton knows.
inline std::vector<std::string> ModelFeatures() {
  std::vector<std::string> out = {kByteFallbackFeature};
  for (const char* model : kFeatureModels) out.push_back(kModelFeaturePrefix + std::string(model));
  return out;
}
/// Roles that learn: with actor.decay_norms_and_biases false norms and biases do not decay.
inline constexpr char kUndecayedNormsFeature[] = "undecayed_norms";

}  // namespace baton

#endif  // BATON_SDK_COMMON_CONTRACTS_WORKER_FEATURES_H_
