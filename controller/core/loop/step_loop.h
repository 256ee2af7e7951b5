// Choice of a job's next activity.
//
// There is no stored plan. `Advance` looks at the job's state (which version is published, which
// step was evaluated, which was saved) and begins the first activity that is due:
//
//   trainer:  set up? -> publish? -> evaluate? -> save? -> at the end? -> pausing? -> a batch?
//   rollouts: take the newest weights when idle; begin prompt groups as StepPlan says
//
// It is called whenever an activity may have become due. So a restart and a rollback need no code
// paths of their own: unfinished activities are due again. In a synchronous job the trainer waits
// for an evaluation and for the responses of its step; in an asynchronous job rollouts go on during
// training, and the trainer waits for them only while no batch is complete.
#ifndef BATON_CONTROLLER_CORE_LOOP_STEP_LOOP_H_
#define BATON_CONTROLLER_CORE_LOOP_STEP_LOOP_H_

#include "controller/core/steps/job_parts.h"

namespace baton::controller {

void Advance(JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_STEP_LOOP_H_
