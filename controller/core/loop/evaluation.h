// Evaluations: one version of the weights responds to the validation prompts, and the responses are
// scored.
//
// PinnedEvaluation has the evaluation under way, and Milestones the step that was evaluated last.
// One evaluation runs at a time; its responses are of one version, which one rollout keeps, or
// loads again, until they are made. A job of kind sft has no separate evaluation: its trainer
// measures held-out examples in the update, and the step reports the result.
#ifndef BATON_CONTROLLER_CORE_LOOP_EVALUATION_H_
#define BATON_CONTROLLER_CORE_LOOP_EVALUATION_H_

#include <map>
#include <string>

#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// An evaluation of the weights after the steps so far is due.
bool EvaluationDue(const JobParts& job);
/// Begins an evaluation of the newest weights that rollouts can get.
void BeginEvaluation(JobParts& job);
/// After a restart: makes the trajectories of all evaluation prompts, as far as they are stored.
void RestoreEvaluation(JobParts& job);
/// The data are read: gives the evaluation up if the number of prompts has changed.
void CheckEvaluationPrompts(JobParts& job);
/// Gives the evaluation up if no rollout has its weights and no host of one can get them any more.
void GiveUpUnreachable(JobParts& job);
/// Begins prompts until one of them waits for a rollout with its version.
void DrawEvaluation(JobParts& job);
/// Once all prompts are begun and all responses READY: reports the evaluation's metrics.
void FinishEvaluationIfDone(JobParts& job);
/// Tells watchers what the trainer measured on held-out examples. False: it measured nothing.
bool EmitHeldOut(const std::map<std::string, double>& metrics, EffectSink& out);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_EVALUATION_H_
