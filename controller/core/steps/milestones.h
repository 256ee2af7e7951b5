// Milestones after a step: an evaluation, a checkpoint, the end of the job.
//
// Owns which step was evaluated and which was saved, the state that a rollback to the newest
// checkpoint restores, the checkpoints that are kept, what the job learned (LearningRow), and the
// time that it held workers. For each step:
//
//   done --> evaluated? --> saved? --> at the end? --> the next step
//
// No plan is stored. What is due follows from the step, from what was done last, and from the spec;
// so a restart and a recovery come to the same answer.
#ifndef BATON_CONTROLLER_CORE_STEPS_MILESTONES_H_
#define BATON_CONTROLLER_CORE_STEPS_MILESTONES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/job/effect_sink.h"
#include "controller/spec/dataflow/learning.h"

namespace baton::controller {

/// State that is restored together with the step when a job returns to its newest checkpoint.
struct SavedState {
  std::map<std::string, double> algorithm;  ///< The algorithm's state between steps.
  store::v1::LearningRow learning;
};

class Milestones {
 public:
  /// `submitted` has spec, effective_spec and dataflow. `total_steps`: of the job.
  Milestones(std::shared_ptr<const v1::Job> submitted, int64_t total_steps);

  void Restore(const store::v1::JobRow& row);
  /// Sets all fields except the checkpoints, which have rows of their own.
  void Save(store::v1::JobRow* row) const;

  // ---- Due. `step`: steps done. `validates`: there are validation prompts.
  bool EvaluationDue(int64_t step, bool validates) const;
  /// True if an evaluation follows the step `after`, which may not be done yet.
  bool EvaluatesAfter(int64_t after, int64_t step, bool validates) const;
  /// Never with trainer.val_only.
  bool SaveDue(int64_t step, bool pausing) const;
  /// True if no step follows.
  bool AtEnd(int64_t step) const;
  /// Ends the job after its step in progress if it has worked for trainer.max_hours.
  void EndWhenOutOfTime();

  // ---- Done.
  LearningNews NoteStep(const StepOutcome& outcome);
  /// Notes the metrics measured after `step`, by an evaluation or by the step itself.
  LearningNews NoteValues(int64_t step, const std::map<std::string, double>& metrics,
                          bool evaluation);
  void Evaluated(int64_t step) { evaluated_step_ = step; }
  /// Stores the results of the evaluation after `step`, so that a rollback to this step restores
  /// them.
  void KeepEvaluation(int64_t step, const std::map<std::string, double>& metrics, EffectSink& out);
  /// The checkpoint is complete, and is listed among those that are kept.
  void Saved(const v1::Checkpoint& checkpoint, SavedState saved, EffectSink& out);
  /// The job goes back to its newest checkpoint.
  const SavedState& RollBack();
  /// Lets only the newest checkpoint of a job that has succeeded keep the optimizer's state, if
  /// trainer.keep_optimizer says so: the others are marked first, so no one is offered to go on
  /// from them while their files are removed.
  void DropOptimizers(EffectSink& out);
  /// After a restart: removes again what may not be removed yet.
  void GoOnDropping(EffectSink& out) const;
  void OptimizersDropped() { drops_optimizer_ = false; }
  /// The step that RollBack leads to.
  int64_t rollback_step() const;

  int64_t evaluated_step() const { return evaluated_step_; }
  int64_t saved_step() const { return saved_step_; }  ///< -1: none.
  const store::v1::LearningRow& learning() const { return learning_; }
  const std::vector<v1::Checkpoint>& checkpoints() const { return checkpoints_; }

  // ---- Time.
  /// `works`: the job held workers since the last call. A rollback does not undo this time, because
  /// the workers were busy during it.
  void Count(bool works, absl::Time now);
  void Delay(absl::Duration duration, absl::Time now);

 private:
  const v1::JobSpec& spec() const { return submitted_->effective_spec(); }
  void KeepCheckpoints(EffectSink& out);

  std::shared_ptr<const v1::Job> submitted_;
  int64_t total_steps_ = 0;
  int64_t evaluated_step_ = -1;
  int64_t saved_step_ = -1;
  SavedState saved_;  // as of saved_step_
  store::v1::LearningRow learning_;
  std::vector<v1::Checkpoint> checkpoints_;  // complete ones that are kept, oldest first
  bool drops_optimizer_ = false;  // files of checkpoints that are weights_only may still be there
  double worked_seconds_ = 0;
  absl::Time counted_ = absl::InfinitePast();  // worked_seconds_ is as of then
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_STEPS_MILESTONES_H_
