// From the roles that a spec puts together to the workers that they share.
#ifndef BATON_CONTROLLER_SPEC_FILL_POOLS_H_
#define BATON_CONTROLLER_SPEC_FILL_POOLS_H_

#include <string>

#include "baton/v1/job_spec.pb.h"
#include "sdk/messages/violations.h"

namespace baton::controller {

/// Turns `resources.placement` (a name, not `auto`) or `resources.pools` into pools that say
/// everything: `rollout` named beside the actor, `devices`, the layouts of roles that learn.
/// Layouts become actor.parallel, critic.train.parallel, rollout.tensor_model_parallel_size and
/// numbers of workers, and the other way round; of rollouts on the actor's pool there are as many
/// as the actor's ranks make replicas. Roles that score, in a pool, with no number of workers of
/// their own get as many as the pool has. The placement is then `pools`: a spec that was filled in
/// stays as it is.
///
/// `given`: what the user said, whose placement CheckPlacement finds nothing wrong with.
/// `effective`: the same with its other defaults. Without pools nothing changes. Violations:
/// numbers that contradict each other, pools that are too small, or larger than any role can use.
/// Pure.
void FillPools(const v1::JobSpec& given, const v1::Dataflow& dataflow, v1::JobSpec* effective,
               Violations* violations);

/// Names what is wrong with rollout.tensor_model_parallel_size once pools are filled in: above 1 it
/// needs rollouts that are the actor's ranks, and divides their tp.
void CheckGenerationTp(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
                       Violations* violations);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_FILL_POOLS_H_
