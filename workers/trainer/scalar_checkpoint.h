// A learning model with a scalar head as part of a checkpoint: a critic beside the actor, or the
// reward model of a job of kind reward_model in the actor's place.
#ifndef BATON_WORKERS_TRAINER_SCALAR_CHECKPOINT_H_
#define BATON_WORKERS_TRAINER_SCALAR_CHECKPOINT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "workers/engine/hf_directory.h"
#include "workers/engine/scalar_trainer.h"
#include "workers/policy/policy_source.h"
#include "workers/trainer/checkpoint.h"

namespace baton::trainer {

/// Names within a checkpoint's folder.
struct ScalarParts {
  std::string model;      ///< A Hugging Face directory with a scalar head and the tokenizer.
  std::string optimizer;  ///< Moments and optimizer step.
  std::string state;      ///< {"format": 1, "step": …, "policy_version": …}

  std::vector<std::string> all() const { return {model, optimizer, state}; }
};
/// Of role critic: critic/, critic_optimizer.safetensors, critic.json; of another, by its name.
ScalarParts CriticParts(const std::string& role = "critic");
/// Those of the actor (checkpoint.h), so that the model is exported and found as an actor is.
ScalarParts RewardModelParts();

/// The model of `source` under its scalar head, in float32. Without a head (which is an error if
/// `needs_head`) and with spec.model.init the head is zeros, over the weights that a policy from
/// the same source and seed starts with.
absl::StatusOr<std::unique_ptr<engine::ScalarModel>> LoadScalar(const policy::PolicySource& source,
                                                                torch::Device device, uint64_t seed,
                                                                bool needs_head,
                                                                const Ranks& ranks = Ranks());

/// Fills its parts of `folder`, which exists; what an earlier attempt left there is replaced. With
/// several ranks as SaveTrainer.
[[nodiscard]] absl::Status SaveScalar(const engine::ScalarModel& model,
                                      const engine::ScalarTrainer& trainer,
                                      const engine::Companions& companions,
                                      const TrainerState& state, const ScalarParts& parts,
                                      const Ranks& ranks, const std::string& folder);

/// Reads the optimizer back into `trainer`. DATA_LOSS when the folder holds another step than
/// `expected_step`.
[[nodiscard]] absl::StatusOr<TrainerState> RestoreScalar(const std::string& folder,
                                                         const ScalarParts& parts,
                                                         int64_t expected_step,
                                                         engine::ScalarTrainer& trainer);

}  // namespace baton::trainer

#endif  // BATON_WORKERS_TRAINER_SCALAR_CHECKPOINT_H_
