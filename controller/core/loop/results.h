// Routing of a task's result to the part that waits for it.
//
// Owns nothing. A result that nothing waits for is acknowledged, and changes nothing: the job went
// on without it.
//
// A result that an earlier controller asked for may come before its work is restored. That of an
// update is kept (ReportBuffer), and routed here a second time. That of a generation or a score is
// the caller's to hold back (JobCore::knows_trajectories); if it comes here, it changes nothing and
// is not acknowledged.
#ifndef BATON_CONTROLLER_CORE_LOOP_RESULTS_H_
#define BATON_CONTROLLER_CORE_LOOP_RESULTS_H_

#include "controller/core/job/events.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

void RouteResult(const TaskDone& event, JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_RESULTS_H_
