// Checkpoints of a learning role, and exports of them.
//
//   of the actor, or of the reward model in a job of kind reward_model
//     actor/                  a Hugging Face directory with the tokenizer
//     optimizer.safetensors   moments and optimizer step
//     trainer.json            {"format": 1, "step": …, "policy_version": …}
//   of a critic, by its role's name
//     critic/                 likewise, with a scalar head
//     critic_optimizer.safetensors
//     critic.json
#ifndef BATON_WORKERS_TRAINER_CHECKPOINT_H_
#define BATON_WORKERS_TRAINER_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "workers/engine/model/hf_directory.h"
#include "workers/engine/model/model.h"
#include "workers/engine/model/weights_io.h"
#include "workers/engine/scalar/scalar_model.h"
#include "workers/engine/scalar/scalar_trainer.h"
#include "workers/engine/training/trainer.h"
#include "workers/ranks/ranks.h"

namespace baton::trainer {

struct TrainerState {
  int64_t step = 0;
  uint64_t policy_version = 0;
};

/// Names within a checkpoint's folder.
struct CheckpointParts {
  std::string model, optimizer, state;
};
CheckpointParts ActorParts();
CheckpointParts CriticParts(const std::string& role = "critic");

/// A model that learns and its optimizer, as a checkpoint has them. The objects that it was made of
/// must outlive it.
struct Learner {
  /// The parameters of the whole model, on every rank that calls it; the ranks of a tensor group
  /// do so together.
  std::function<absl::StatusOr<engine::NamedTensors>()> whole;
  std::function<absl::Status(const engine::NamedTensors& whole, const std::string& folder,
                             const engine::SaveOptions&)>
      save_model;
  std::function<absl::Status(const std::string&path)> save_optimizer, load_optimizer;
};
Learner LearnerOf(const engine::CausalLM& model, engine::Trainer& trainer);
Learner LearnerOf(const engine::ScalarModel& model, engine::ScalarTrainer& trainer);

/// Fills its parts of `folder`, which exists; what an earlier attempt left there is replaced. All
/// ranks call this, and the first writes. Their common work comes before its first long write, so
/// no rank waits for a slow disk or for one that is full.
[[nodiscard]] absl::Status SaveLearner(const Learner& learner, const engine::Companions& companions,
                                       const TrainerState& state, const CheckpointParts& parts,
                                       const ranks::Ranks& ranks, const std::string& folder);

/// Reads the optimizer back. DATA_LOSS when the folder holds another step than `expected_step`;
/// FAILED_PRECONDITION names the optimizer's file when it is not there.
[[nodiscard]] absl::StatusOr<TrainerState> RestoreLearner(const std::string& folder,
                                                          const CheckpointParts& parts,
                                                          int64_t expected_step,
                                                          const Learner& learner);

/// Copies the checkpoint's `actor` to `directory`, at once (a temporary folder is renamed), its
/// weights in `dtype` ("float32", "bfloat16", …); empty: float32, in which they are trained.
/// NOT_FOUND without a checkpoint, ALREADY_EXISTS when `directory` holds anything.
[[nodiscard]] absl::Status ExportCheckpoint(const std::string& checkpoint,
                                            const std::string& directory,
                                            const std::string& dtype = "");

}  // namespace baton::trainer

#endif  // BATON_WORKERS_TRAINER_CHECKPOINT_H_
