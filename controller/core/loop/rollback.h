// The rollback to the newest checkpoint, and other work that is given up: prompt groups, the batch,
// the evaluation.
//
// Weights live on workers alone, so the loss of a rank that trains loses all that was learned since
// the checkpoint. Everything then goes back to how it stood: the step, which draws are spent, the
// algorithm's state, what the job learned. The steps that follow are done anew, in a new
// incarnation, so nothing that belongs to the lost ones is taken for theirs.
#ifndef BATON_CONTROLLER_CORE_LOOP_ROLLBACK_H_
#define BATON_CONTROLLER_CORE_LOOP_ROLLBACK_H_

#include <cstdint>
#include <string>

#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// Forgets the responses of a group; what still runs of them is stopped for `reason`.
void DropGroup(uint64_t draw, const std::string& reason, JobParts& job);
/// The groups that are drawn for the next batch are complete, as before they were drawn.
void UndrawBatch(const std::string& reason, JobParts& job);
/// The groups of the batch are complete again, whether it was taken or not.
void GiveBatchBack(const std::string& reason, JobParts& job);
/// The evaluation is given up: it is due again, if its step is still the newest one.
void DropEvaluation(const std::string& reason, JobParts& job);
/// All work ends: what is open is closed, and what was told of it early is dropped.
void CloseWork(const std::string& reason, JobParts& job);

/// Everything stands as it did when the newest checkpoint was saved. Returns the number of steps
/// that are lost.
int64_t RollBack(JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_ROLLBACK_H_
