// Waits of the trainer and the rollouts for each other's work, for ExplainJob.
#ifndef BATON_CONTROLLER_CORE_VIEWS_EXPLAIN_GROUPS_H_
#define BATON_CONTROLLER_CORE_VIEWS_EXPLAIN_GROUPS_H_

#include "controller/core/job/wait_list.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// The batch that waits for its groups, the evaluation, groups that are late, rollouts that are
/// held back, and responses that are recalled.
void ExplainGroups(const JobParts& job, WaitList& waits);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_VIEWS_EXPLAIN_GROUPS_H_
