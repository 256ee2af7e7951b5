// Handling of responses: of their generation and their scores, and of results that do not come.
//
// The scheduler owns the trajectories; the functions here say what follows for the rest of the job.
#ifndef BATON_CONTROLLER_CORE_LOOP_RESPONSES_H_
#define BATON_CONTROLLER_CORE_LOOP_RESPONSES_H_

#include "controller/core/job/events.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// The result of a generation or a score that the job waits for. `late`: no worker answered, so the
/// attempt is given up.
void OnGenerated(const TaskDone& event, JobParts& job);
void OnScored(const TaskDone& event, bool late, JobParts& job);
/// Generations that do not move, and scores that are due, go to other workers.
void CheckResponseDeadlines(JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_RESPONSES_H_
