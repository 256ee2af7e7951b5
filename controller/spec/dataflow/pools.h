// Pools of a job: the workers that it asks for, and the roles that share them.
#ifndef BATON_CONTROLLER_SPEC_DATAFLOW_POOLS_H_
#define BATON_CONTROLLER_SPEC_DATAFLOW_POOLS_H_

#include <string>
#include <vector>

#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// Workers that the roles of the pool use in turn.
struct RolePool {
  std::vector<std::string> roles;  ///< In the order of RolesInOrder; at least one.
  int workers = 0;                 ///< As many as its largest role has (WorkersOf).
};

/// The roles that have workers, each once: `rollout` first (kind rl), then those that score in the
/// order of their nodes, then those that only learn, in the order of theirs.
std::vector<std::string> RolesInOrder(const v1::JobSpec& effective, const v1::Dataflow& dataflow);

/// Every role that has workers (WorkersOf) in exactly one pool: first `resources.pools` in their
/// order, then each role that is in none of them on its own, in the order of RolesInOrder. But if
/// the actor is in one of `resources.pools` and the rollouts are in none, the rollouts are in the
/// actor's. Roles that the job does not have, and a role's second mention, are passed over. Pure.
std::vector<RolePool> PoolsOf(const v1::JobSpec& effective, const v1::Dataflow& dataflow);

/// True if actor and rollouts share a pool: one group of ranks that trains and generates.
bool IsHybrid(const v1::JobSpec& effective, const v1::Dataflow& dataflow);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_DATAFLOW_POOLS_H_
