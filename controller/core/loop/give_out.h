// Giving workers what they may do: weights to rollouts, turns on shared workers, commands, tasks;
// and how many prompt groups may be ahead of the trainer.
#ifndef BATON_CONTROLLER_CORE_LOOP_GIVE_OUT_H_
#define BATON_CONTROLLER_CORE_LOOP_GIVE_OUT_H_

#include <cstdint>

#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// Lets rollouts with the newest weights generate, and the others load these. Responses of replicas
/// that had better make them again with newer weights are stopped.
void LoadWeights(JobParts& job);
/// Gives out what can begin: turns on shared workers, then commands, then tasks.
void GiveOut(JobParts& job);

/// One more group may begin beside the trainer's work: it can be consumed within the bound, and
/// before the job ends.
bool MayBeginGroup(JobParts& job);
/// The same with `staleness` in place of schedule.max_staleness.
bool MayBeginWithin(uint64_t staleness, JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_GIVE_OUT_H_
