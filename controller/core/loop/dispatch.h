// Starts of new work: evaluation prompts, prompt groups, and their tasks.
#ifndef BATON_CONTROLLER_CORE_LOOP_DISPATCH_H_
#define BATON_CONTROLLER_CORE_LOOP_DISPATCH_H_

#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// The trainer waits for responses: opens the next round of prompt groups, unless one is open
/// (StepPlan::rounds). Its trajectories are made by Dispatch, as rollouts take them.
void BeginRound(JobParts& job);
/// Assigns what can begin, and begins what rollouts have room for.
void Dispatch(JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_DISPATCH_H_
