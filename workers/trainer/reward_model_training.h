// The training of role "actor" in a job of kind reward_model: a model with a scalar head, on pairs.
#ifndef BATON_WORKERS_TRAINER_REWARD_MODEL_TRAINING_H_
#define BATON_WORKERS_TRAINER_REWARD_MODEL_TRAINING_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "baton/v1/experience.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/worker/task_context.h"
#include "workers/engine/scalar/scalar_trainer.h"
#include "workers/policy/policy_source.h"
#include "workers/trainer/checkpoint.h"

namespace baton::trainer {

/// A pair travels as one trajectory: its prompt, the chosen response as `response_text`, the
/// rejected one as a column `rejected` of bytes (UTF-8). Both sides are encoded as demonstrations
/// are (policy::FromTexts). INVALID_ARGUMENT names the trajectory and its prompt: no rejected
/// response, or sides that are equal.
absl::StatusOr<engine::PreferencePair> PairFromTexts(const v1::Trajectory& trajectory,
                                                     const v1::DataSpec& data,
                                                     const policy::PolicySource& source);

/// One thread at a time.
class RewardModelTraining {
 public:
  using Metrics = std::map<std::string, double>;

  /// Starts from the assignment's checkpoint, else from spec.model: a model with a scalar head, or
  /// a language model under a head of zeros. `source` and the groups of `ranks` must outlive this.
  static absl::StatusOr<std::unique_ptr<RewardModelTraining>> Create(
      const v1::AssignRole& assign, const policy::PolicySource* source, const std::string& device,
      const ranks::Ranks& ranks);

  /// The update of the task. Its loss is "bradley_terry", without options. Trajectories of
  /// PURPOSE_EVAL are held out: the updated model is judged on them and not trained. Metrics: those
  /// of ScalarTrainer::UpdatePreferences and Evaluate.
  absl::StatusOr<Metrics> Update(absl::Span<const v1::Trajectory> batch, TaskContext& context);

  /// val/accuracy, val/loss and val/margin (PreferenceReport) of all pairs of the batch.
  absl::StatusOr<Metrics> Evaluate(absl::Span<const v1::Trajectory> batch);

  /// The reasons why optimizer steps of the last update were skipped.
  const std::vector<std::string>& skip_reasons() const { return trainer_->skip_reasons(); }

  /// The parts that a checkpoint holds.
  Learner learner() { return LearnerOf(*model_, *trainer_); }

 private:
  RewardModelTraining(const v1::JobSpec& spec, const policy::PolicySource* source)
      : spec_(spec), source_(source) {}
  absl::StatusOr<std::vector<engine::PreferencePair>> Pairs(
      const std::vector<const v1::Trajectory*>& trajectories) const;
  absl::StatusOr<Metrics> Judge(const std::vector<engine::PreferencePair>& pairs);

  const v1::JobSpec spec_;
  const policy::PolicySource* const source_;
  std::unique_ptr<engine::ScalarModel> model_;
  std::unique_ptr<engine::ScalarTrainer> trainer_;
};

}  // namespace baton::trainer

#endif  // BATON_WORKERS_TRAINER_REWARD_MODEL_TRAINING_H_
