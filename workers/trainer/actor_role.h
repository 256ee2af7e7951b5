// Role "actor": the trained policy of one job at a time.
#ifndef BATON_WORKERS_TRAINER_ACTOR_ROLE_H_
#define BATON_WORKERS_TRAINER_ACTOR_ROLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "sdk/worker/experience_client.h"
#include "sdk/worker/worker.h"
#include "workers/engine/model/model.h"
#include "workers/engine/training/trainer.h"
#include "workers/hybrid/hybrid_engine.h"
#include "workers/hybrid/shared_policy.h"
#include "workers/policy/policy_source.h"
#include "workers/policy/weights_publisher.h"
#include "workers/policy/weights_relay.h"
#include "workers/ranks/ranks.h"
#include "workers/ranks/role_setup.h"
#include "workers/ranks/score_loop.h"
#include "workers/trainer/learning_steps.h"
#include "workers/trainer/reward_model_training.h"

namespace baton::trainer {

/// Methods: update, publish, to_generation, save_checkpoint, compute_log_prob, evaluate and export.
/// In a job of kind reward_model it trains a reward model instead (reward_model_training.h):
/// update, evaluate, save_checkpoint and export. compute_log_prob (Score) makes a column
/// `old_log_prob`, float32 per response token, of the weights as they stand, under softmax(logits /
/// rollout.temperature) (1 where that is 0). Requests that wait go together, on a thread of their
/// own (ranks/score_loop.h); every other method of a policy but export runs on it too, once they
/// are answered. Each may be repeated: `update` of the step already made answers its first result,
/// so no optimizer step is ever applied twice.
///
/// With AssignRole.generation_tp, to_generation lends the weights, as they are, to role rollout of
/// this process; an update takes them back first. Nothing else is disturbed by it: between the two
/// the weights stand still, so the other methods run as ever.
///
/// With several ranks (ranks/ranks.h) all of them get update, publish, to_generation,
/// save_checkpoint and evaluate, in one order; one writes files, and the ranks of one
/// copy publish. compute_log_prob goes to
/// the first rank of a tensor group, with which the others compute it. A rank that misses another
/// answers UNAVAILABLE or DEADLINE_EXCEEDED, and the group is assigned anew.
class ActorRole {
 public:
  /// `relay` and `shared` must outlive this. Role rollout of this process has the same `shared`.
  ActorRole(ranks::ModelRoleOptions options, policy::WeightsRelay* relay,
            hybrid::SharedPolicy* shared);
  ~ActorRole();

  /// Registers the role; this must outlive the worker's Run.
  absl::Status Register(Worker& worker);

 private:
  struct Assigned {
    v1::JobSpec spec;
    std::unique_ptr<ranks::Ranks> ranks;  ///< Outlive what talks over them.
    std::unique_ptr<policy::PolicySource> source;
    std::unique_ptr<RewardModelTraining> reward_model;  ///< For kind reward_model, else null …
    std::unique_ptr<engine::CausalLM> model;            ///< … and otherwise these.
    std::unique_ptr<engine::Trainer> trainer;
    std::unique_ptr<policy::WeightsPublisher> publisher;
    std::unique_ptr<hybrid::HybridEngine> hybrid;  ///< With generation_tp, else null.
    LearningSteps steps;
    std::optional<uint64_t> publishing;      ///< The version last handed to the relay.
    bool published = false;                  ///< Some version was, since the assignment.
    std::unique_ptr<ranks::ScoreLoop> loop;  ///< For a policy, else null. Ends first.
  };
  using Result = absl::StatusOr<v1::TaskResult>;

  Result Assign(const v1::Task& task, TaskContext& context);
  Result Update(const v1::Task& task, TaskContext& context);
  Result Publish(const v1::Task& task, TaskContext& context);
  Result ToGeneration(const v1::Task& task, TaskContext& context);
  Result SaveCheckpoint(const v1::Task& task, TaskContext& context);
  void ComputeLogProb(std::shared_ptr<TaskContext> context);
  Result Evaluate(const v1::Task& task, TaskContext& context);
  static Result Export(const v1::Task& task);
  void Drop(const absl::Status& why);
  static Learner LearnerIn(const Assigned& assigned);
  absl::Status LoadPolicy(const v1::AssignRole& assign, Assigned& assigned) const;
  absl::Status ShareWithRollout(const v1::AssignRole& assign, hybrid::HybridGroups groups,
                                Assigned& assigned) const;
  absl::Status StopGeneration();
  /// One update of a policy, with what it trains on and what is judged after it.
  struct PolicyUpdate {
    std::vector<engine::TrainSequence> batch, judged;
    LossSpec loss;
    engine::UpdateOptions options;
    /// Demonstrations and pretraining texts of `batch` that are cut; absent: it has none.
    std::optional<int64_t> cut_texts;
  };
  /// Fetches this rank's share of `trajectories` too, where these are headers.
  absl::StatusOr<PolicyUpdate> PrepareUpdate(const v1::Update& update,
                                             std::vector<v1::Trajectory> trajectories,
                                             TaskContext& context) const;
  absl::StatusOr<std::map<std::string, double>> TrainPolicy(const PolicyUpdate& made);
  void LogSkippedSteps(const v1::Task& task) const;
  absl::Status CheckVersion(absl::string_view method, uint64_t version) const;
  /// FAILED_PRECONDITION for what only a policy does.
  absl::Status CheckPolicy(absl::string_view method) const;

  const ranks::ModelRoleOptions options_;
  policy::WeightsRelay* const relay_;
  hybrid::SharedPolicy* const shared_;
  std::unique_ptr<ExperienceClient> experience_;
  std::unique_ptr<Assigned> assigned_;
};

}  // namespace baton::trainer

#endif  // BATON_WORKERS_TRAINER_ACTOR_ROLE_H_
