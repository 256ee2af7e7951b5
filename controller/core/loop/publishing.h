// Publication of the newest weights to the rollouts.
//
// Owns nothing: PolicyVersions knows which version is newest, whether it is published, and who
// holds it. The actor publishes to the relay, from which each rollout loads; where rollouts are the
// actor's own ranks, these gather the weights for generation instead.
#ifndef BATON_CONTROLLER_CORE_LOOP_PUBLISHING_H_
#define BATON_CONTROLLER_CORE_LOOP_PUBLISHING_H_

#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// True while rollouts cannot get the newest weights.
bool PublishDue(const JobParts& job);
void Publish(JobParts& job);
/// All ranks of the actor have done the command. `kind`: kPublish or kToGeneration.
void OnPublished(TaskKind kind, JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_PUBLISHING_H_
