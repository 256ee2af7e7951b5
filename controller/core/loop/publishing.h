// Giving the rollouts the newest weights.
//
// Owns nothing: PolicyVersions knows which version is newest, whether it is published, and who
// holds it. The actor publishes to the relay, from which each rollout loads; where rollouts are the
// actor's own ranks, these gather the weights for generation instead.
#ifndef BATON_CONTROLLER_CORE_LOOP_PUBLISHING_H_
#define BATON_CONTROLLER_CORE_LOOP_PUBLISHING_H_

#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// Rollouts cannot get the newest weights yet.
bool PublishDue(const JobParts& job);
void Publish(JobParts& job);
/// All ranks of the actor have done it. `kind`: kPublish or kToGeneration.
void OnPublished(TaskKind kind, JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_PUBLISHING_H_
