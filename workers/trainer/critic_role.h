// Roles "critic" and "cost_critic": values of states, and their training.
#ifndef BATON_WORKERS_TRAINER_CRITIC_ROLE_H_
#define BATON_WORKERS_TRAINER_CRITIC_ROLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sdk/worker/experience_client.h"
#include "sdk/worker/worker.h"
#include "workers/engine/scalar/scalar_trainer.h"
#include "workers/policy/policy_source.h"
#include "workers/policy/sequences.h"
#include "workers/ranks/role_setup.h"
#include "workers/ranks/score_loop.h"
#include "workers/trainer/learning_steps.h"

namespace baton::trainer {

/// Methods
///   compute_values   Score: from `prompt_tokens` and `tokens` a column `values`, float32 per
///                    response token: the value of the state before it (scalar_model.h)
///   update           Update with loss "value": trains on columns `returns` and `values`
///   save_checkpoint  SaveCheckpoint (trainer/checkpoint.h: CriticParts)
/// The critic of costs has columns `cost_values` and `cost_returns`, metrics cost_critic/* and the
/// section spec.cost_critic; a checkpoint's parts begin with the role.
///
/// Starts from the assignment's checkpoint, else from the section's model, else from spec.model; a
/// model without a scalar head gets one of zeros. The last two methods are group commands and may
/// be repeated: `update` of the step already made answers its first result. Requests for values
/// that came before a command are answered before it runs. With several ranks (ranks/ranks.h) all
/// get the commands, and the first of a tensor group the requests, with which the others compute.
class CriticRole {
 public:
  /// `role`: "critic" or "cost_critic".
  CriticRole(std::string role, ranks::ModelRoleOptions options);
  ~CriticRole();

  /// Registers the role; this must outlive the worker's Run.
  absl::Status Register(Worker& worker);

 private:
  struct Assigned {
    v1::JobSpec spec;                     ///< SpecOfCritic.
    std::unique_ptr<ranks::Ranks> ranks;  ///< Outlive what talks over them.
    std::unique_ptr<policy::PolicySource> source;
    std::unique_ptr<engine::ScalarModel> model;
    std::unique_ptr<engine::ScalarTrainer> trainer;
    LearningSteps steps;
    std::unique_ptr<ranks::ScoreLoop> loop;  ///< Ends first.
  };
  using Result = absl::StatusOr<v1::TaskResult>;
  using Metrics = std::map<std::string, double>;

  Result Assign(const v1::Task& task, TaskContext& context);
  Result Update(const v1::Task& task, TaskContext& context);
  Result SaveCheckpoint(const v1::Task& task);
  absl::StatusOr<Metrics> Train(const v1::Task& task,
                                const std::vector<engine::TrainSequence>& batch,
                                const LossSpec& loss, const engine::UpdateOptions& options);

  const ranks::ModelRoleOptions options_;
  const std::string role_;
  const policy::ValueColumns columns_;
  std::unique_ptr<ExperienceClient> experience_;
  std::unique_ptr<Assigned> assigned_;
};

}  // namespace baton::trainer

#endif  // BATON_WORKERS_TRAINER_CRITIC_ROLE_H_
