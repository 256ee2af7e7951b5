// Conversion of the pools of a spec, which group roles, to numbers of workers.
#ifndef BATON_CONTROLLER_SPEC_SETTINGS_FILL_POOLS_H_
#define BATON_CONTROLLER_SPEC_SETTINGS_FILL_POOLS_H_

#include <string>

#include "baton/v1/job_spec.pb.h"
#include "sdk/common/messages/violations.h"

namespace baton::controller {

/// Turns `resources.placement` (a name, not `auto`) or `resources.pools` into complete pools: with
/// `rollout` beside the actor, `devices`, and the layouts of roles that learn. Layouts become
/// actor.parallel, critic.train.parallel, rollout.tensor_model_parallel_size and numbers of
/// workers, and the other way round; the actor's pool has as many rollouts as the actor's ranks
/// form replicas. Roles in a pool that score, and have no number of workers of their own, get as
/// many as the pool has. The placement is then `pools`, so filling in a spec twice changes nothing.
///
/// `given`: the user's spec, in whose placement CheckPlacement finds no problem. `effective`: the
/// same with its other defaults. Without pools nothing changes. Violations: numbers that contradict
/// each other, pools that are too small, or larger than any role can use. Pure.
void FillPools(const v1::JobSpec& given, const v1::Dataflow& dataflow, v1::JobSpec* effective,
               Violations* violations);

/// Adds the problems of rollout.tensor_model_parallel_size once pools are filled in: above 1 it
/// needs rollouts that are the actor's ranks, and must divide their tp.
void CheckGenerationTp(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
                       Violations* violations);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_SETTINGS_FILL_POOLS_H_
