// Routes the result of a task to what waits for it.
//
// Owns nothing. A result that nothing waits for is acknowledged, and changes nothing: the job went
// on without it. A result that an earlier controller asked for may come before what it belongs to
// stands again; then it is kept (EarlyReports), and comes through here a second time.
#ifndef BATON_CONTROLLER_CORE_LOOP_RESULTS_H_
#define BATON_CONTROLLER_CORE_LOOP_RESULTS_H_

#include "controller/core/job/events.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

void RouteResult(const TaskDone& event, JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_RESULTS_H_
