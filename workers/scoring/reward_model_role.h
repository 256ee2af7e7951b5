// Roles "reward_model" and "cost": a learned score of whole responses.
#ifndef BATON_WORKERS_SCORING_REWARD_MODEL_ROLE_H_
#define BATON_WORKERS_SCORING_REWARD_MODEL_ROLE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sdk/worker/worker.h"
#include "workers/engine/scalar/scalar_model.h"
#include "workers/policy/policy_source.h"
#include "workers/ranks/ranks.h"
#include "workers/ranks/role_setup.h"
#include "workers/ranks/score_loop.h"

namespace baton::scoring {

/// Method compute_reward (Score): the number `reward` (role reward_model) or `cost` (role cost),
/// the scalar of the response's last token. The model is spec.reward_model.model or
/// spec.cost_model.model and needs a scalar head.
///
/// A model with the policy's tokenizer reads the policy's tokens as they are. Another one reads the
/// texts: the prompt through its own chat template, the response, and what ends a response unless
/// the length cut it. A response it cannot read is no reward: TaskResult.error says why, and the
/// number is spec.reward.error_reward. Several ranks as ReferenceRole's.
class RewardModelRole {
 public:
  /// `role`: "reward_model" or "cost".
  RewardModelRole(std::string role, ranks::ModelRoleOptions options);
  ~RewardModelRole();

  /// Registers the role; this must outlive the worker's Run.
  absl::Status Register(Worker& worker);

 private:
  struct Assigned {
    std::unique_ptr<ranks::Ranks> ranks;  ///< Outlive what talks over them.
    std::unique_ptr<policy::PolicySource> source;
    std::unique_ptr<engine::ScalarModel> model;
    bool reads_tokens = false;
    double error_reward = 0;
    std::unique_ptr<ranks::ScoreLoop> loop;  ///< Ends first.
  };
  absl::StatusOr<v1::TaskResult> Assign(const v1::Task& task, TaskContext& context);
  void Compute(std::shared_ptr<TaskContext> context);
  absl::StatusOr<engine::TrainSequence> SequenceOf(const v1::Trajectory& trajectory) const;

  const std::string role_;
  const ranks::ModelRoleOptions options_;
  std::unique_ptr<Assigned> assigned_;
};

}  // namespace baton::scoring

#endif  // BATON_WORKERS_SCORING_REWARD_MODEL_ROLE_H_
