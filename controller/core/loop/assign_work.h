// Distribution of work: weights to rollouts, turns on shared workers, commands and tasks; and the
// limit on prompt groups ahead of the trainer.
#ifndef BATON_CONTROLLER_CORE_LOOP_ASSIGN_WORK_H_
#define BATON_CONTROLLER_CORE_LOOP_ASSIGN_WORK_H_

#include <cstdint>

#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// Lets rollouts with the newest weights generate, and the others load them. Stops responses that
/// are better made again with newer weights.
void LoadWeights(JobParts& job);
/// Gives workers all that can begin: turns on shared workers, then commands, then tasks.
void AssignWork(JobParts& job);

/// The staleness at which groups that begin now are consumed at most: schedule.max_staleness, or
/// less where the pace holds them back (admission_pace.h).
uint64_t PacedStaleness(const JobParts& job);
/// True if one more group may begin during the trainer's work: it can be consumed within the bound,
/// and before the job ends.
bool MayBeginGroup(JobParts& job);
/// The same with `staleness` in place of schedule.max_staleness.
bool MayBeginWithin(uint64_t staleness, JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_ASSIGN_WORK_H_
