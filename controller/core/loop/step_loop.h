// What a job does next.
//
// Plans nothing. `Advance` looks at what is true (which version is published, which step was
// evaluated, which was saved) and begins the first activity that is due:
//
//   trainer:  set up? -> publish? -> evaluate? -> save? -> at the end? -> pausing? -> a batch?
//   rollouts: take the newest weights when idle; begin prompt groups as StepPlan says
//
// It is called whenever something may have become true. So a restart and a rollback need no paths
// of their own: what they left undone is due. Of a synchronous job the trainer waits for an
// evaluation and for the responses of its step; of an asynchronous one rollouts go on beside it,
// and it waits for them only while no batch is complete.
#ifndef BATON_CONTROLLER_CORE_LOOP_STEP_LOOP_H_
#define BATON_CONTROLLER_CORE_LOOP_STEP_LOOP_H_

#include "controller/core/steps/job_parts.h"

namespace baton::controller {

void Advance(JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_STEP_LOOP_H_
