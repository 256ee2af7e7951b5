// Publication of the newest weights to the rollouts.
//
// Owns nothing: PolicyVersions knows which version is newest, whether it is published, and who
// holds it. The actor publishes to the relay of its host, from which the weights travel to the
// relay of each rollout's host; where rollouts are the actor's own ranks, these gather the weights
// for generation instead.
#ifndef BATON_CONTROLLER_CORE_LOOP_PUBLISHING_H_
#define BATON_CONTROLLER_CORE_LOOP_PUBLISHING_H_

#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// True while the newest weights are not published.
bool PublishDue(const JobParts& job);
/// True while the job goes on with no other weights than the newest, and these are on their way to
/// the rollouts' hosts.
bool AwaitsTravel(const JobParts& job);
void Publish(JobParts& job);
/// All ranks of the actor have done the command. `kind`: kPublish or kToGeneration.
void OnPublished(TaskKind kind, JobParts& job);
/// What the controller knows of the relays of the job's hosts has changed.
void OnRelaysSeen(const RelaysSeen& event, JobParts& job);
/// The published weights may have arrived, or some host is too late for them.
void ServePublished(JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_PUBLISHING_H_
