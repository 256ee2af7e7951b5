// Progress of a job's learning, step by step: symptoms that keep it from learning, its best step,
// and whether a metric ends it before its last step.
//
// Pure. Everything is counted in a LearningRow: a part of the job's row, which is saved with each
// checkpoint and restored by a rollback. So a step that is done again is counted once.
#ifndef BATON_CONTROLLER_SPEC_DATAFLOW_LEARNING_H_
#define BATON_CONTROLLER_SPEC_DATAFLOW_LEARNING_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "baton/store/v1/rows.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// Entropy of the policy, in nats per token, below which its answers hardly differ.
inline constexpr double kLowEntropy = 0.005;
/// Steps in a row that show a symptom before there is a warning. (Skipped gradients: one.)
inline constexpr int64_t kStepsToWarn = 3;
/// Warnings about the same symptom; later ones are only counted for the summary.
inline constexpr int32_t kMostWarnings = 10;

/// A step that is done.
struct StepOutcome {
  int64_t step = 0;           ///< Number of the step, from 1.
  bool actor_learns = true;   ///< False: it is one of algorithm.critic_warmup.
  bool actor_updated = true;  ///< False: its batch was empty.
  std::map<std::string, double> metrics;
};

/// News for a job's user.
struct LearningNews {
  std::vector<std::string> warnings;  ///< New symptoms that keep the job from learning.
  absl::Status failure;               ///< Not OK: the job fails with it.
};

/// Counts the symptoms in `outcome` of a job that cannot learn. FAILED_PRECONDITION in `failure`
/// once trainer.fail_after_idle_steps steps in a row had nothing to learn from.
LearningNews NoteStep(const v1::JobSpec& spec, const StepOutcome& outcome,
                      store::v1::LearningRow* row);

/// Compares values measured after `step` with the best so far (trainer.keep_best), and sets
/// `row->stop_reason` when trainer.early_stop says so. `evaluation`: an evaluation measured them,
/// and metrics that begin with "val" are among them if they exist.
LearningNews NoteValues(const v1::JobSpec& spec, int64_t step,
                        const std::map<std::string, double>& metrics, bool evaluation,
                        store::v1::LearningRow* row);

/// The symptoms that kept a job from learning in its first `steps` steps, one sentence each; empty:
/// none. A symptom is named if a warning told of it, or if at least one step in ten had it.
std::vector<std::string> LearningSummary(const v1::JobSpec& spec, int64_t steps,
                                         const store::v1::LearningRow& row);

/// A job goes on as another one with the settings `after` instead of `before`. The best value of a
/// metric is forgotten if another metric, another direction or another measurement takes its place:
/// other validation files, another reward, other sampling, other lengths.
void BeginAnewWith(const v1::JobSpec& before, const v1::JobSpec& after,
                   store::v1::LearningRow* row);

/// A job goes on as another one: forgets why the first job ended, and also its best checkpoint
/// unless the new job has it.
void ForgetEnding(bool has_best_checkpoint, store::v1::LearningRow* row);

/// True if lower values of a metric are better: mode "min", or, if the mode is empty, a name that
/// has loss, error, kl, cost, perplexity or ppl as a word of its last part.
bool LowerIsBetter(absl::string_view metric, absl::string_view mode);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_DATAFLOW_LEARNING_H_
