// Rollback to the newest checkpoint, and other ways to give up work: prompt groups, the batch, the
// evaluation.
//
// Weights are only on workers, so the loss of a rank that trains loses all training since the
// checkpoint. The job then returns to the checkpoint's state: the step, the set of spent prompt
// groups, the algorithm's state, what the job learned. The lost steps are done again in a new
// incarnation, so nothing of the lost steps is mistaken for theirs.
#ifndef BATON_CONTROLLER_CORE_LOOP_ROLLBACK_H_
#define BATON_CONTROLLER_CORE_LOOP_ROLLBACK_H_

#include <cstdint>
#include <string>

#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// Forgets the responses of a group, and stops those that still run, for `reason`.
void DropGroup(uint64_t prompt_index, const std::string& reason, JobParts& job);
/// Makes the groups that were selected for the next batch complete again.
void ReleaseBatch(const std::string& reason, JobParts& job);
/// Makes the groups of the batch complete again, whether it was taken or not.
void GiveBatchBack(const std::string& reason, JobParts& job);
/// Gives the evaluation up: it is due again if its step is still the newest one.
void DropEvaluation(const std::string& reason, JobParts& job);
/// Ends all work: closes open groups, and drops reports received before recovery.
void CloseWork(const std::string& reason, JobParts& job);

/// Restores the job's state as of the newest checkpoint. Returns the number of steps that are lost.
int64_t RollBack(JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_ROLLBACK_H_
