// Evaluations: validation prompts are asked of the newest weights, and the answers are scored.
//
// Owns nothing: which step was evaluated last stands in Milestones. A job of kind sft evaluates
// nothing by itself; its trainer measures held-out examples in the update, and the step tells so.
#ifndef BATON_CONTROLLER_CORE_LOOP_EVALUATION_H_
#define BATON_CONTROLLER_CORE_LOOP_EVALUATION_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/trajectory.h"

namespace baton::controller {

struct JobParts;

/// An evaluation of the weights after the steps so far is due.
bool EvaluationDue(const JobParts& job);
/// All responses of the evaluation after `step`, which began then, are READY: tells what they add
/// up to.
void TellEvaluation(int64_t step, absl::Time began,
                    const std::map<uint64_t, TrajectoryInfo>& trajectories, JobParts& job);
/// All responses of the evaluation that is the job's work are READY.
void FinishEvaluation(JobParts& job);
/// Tells watchers what the trainer measured on held-out examples. False: nothing.
bool EmitHeldOut(const std::map<std::string, double>& metrics, EffectSink& out);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_EVALUATION_H_
