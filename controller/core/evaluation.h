// Evaluations: validation prompts are asked of the newest weights, and the answers are scored.
//
// Owns nothing: which step was evaluated last stands in Milestones. A job of kind sft evaluates
// nothing by itself; its trainer measures held-out examples in the update, and the step tells so.
#ifndef BATON_CONTROLLER_CORE_EVALUATION_H_
#define BATON_CONTROLLER_CORE_EVALUATION_H_

#include <map>
#include <string>

#include "controller/core/effect_sink.h"

namespace baton::controller {

struct JobParts;

/// An evaluation of the weights after the steps so far is due.
bool EvaluationDue(const JobParts& job);
/// All its responses are READY.
void FinishEvaluation(JobParts& job);
/// Tells watchers what the trainer measured on held-out examples. False: nothing.
bool EmitHeldOut(const std::map<std::string, double>& metrics, EffectSink& out);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_EVALUATION_H_
