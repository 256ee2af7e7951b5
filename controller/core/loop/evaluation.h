// Evaluations: validation prompts are asked of one version of the weights, and the answers are
// scored.
//
// PinnedEvaluation has what the evaluation under way is, and Milestones which step was evaluated
// last. One runs at a time; its responses are of one version, which one rollout keeps, or loads
// again, until they are made. A job of kind sft evaluates nothing by itself; its trainer measures
// held-out examples in the update, and the step tells so.
#ifndef BATON_CONTROLLER_CORE_LOOP_EVALUATION_H_
#define BATON_CONTROLLER_CORE_LOOP_EVALUATION_H_

#include <map>
#include <string>

#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// An evaluation of the weights after the steps so far is due.
bool EvaluationDue(const JobParts& job);
/// It begins, with the newest weights that rollouts can get.
void BeginEvaluation(JobParts& job);
/// After a restart: makes the trajectories of all its prompts, as far as they are stored.
void RestoreEvaluation(JobParts& job);
/// The data are read: gives it up if they have another number of prompts than it had.
void CheckEvaluationPrompts(JobParts& job);
/// Draws prompts until one of them waits for a rollout of its version.
void DrawEvaluation(JobParts& job);
/// All prompts are drawn, and all responses READY: tells what they add up to.
void FinishEvaluationIfDone(JobParts& job);
/// Tells watchers what the trainer measured on held-out examples. False: nothing.
bool EmitHeldOut(const std::map<std::string, double>& metrics, EffectSink& out);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_EVALUATION_H_
