// From responses that are all READY to the batch that roles train on.
//
// Owns nothing: the batch is ExperienceBuffer's. A batch may turn out too small. Groups that lost
// too many rewards are replaced by the next prompts before it is built; with dynamic sampling,
// groups that teach nothing are replaced after that. Both look at all responses of the step at
// once, so a restart comes to the same draws.
//
//   all READY --enough rewards--> asked for --built, enough groups teach--> the update
//      |                             |
//      +--- too few: more prompts ---+--> generate
#ifndef BATON_CONTROLLER_CORE_LOOP_BATCH_WORK_H_
#define BATON_CONTROLLER_CORE_LOOP_BATCH_WORK_H_

#include "absl/status/status.h"
#include "controller/core/job/events.h"

namespace baton::controller {

struct JobParts;

/// The step's responses are all READY: asks for their batch, or draws more prompts.
void BuildBatchOf(JobParts& job);
/// The batch stands. One that the job no longer waits for is ignored.
void OnBatchBuilt(const BatchBuilt& event, JobParts& job);
/// The batch stands, and the actor is free: the update begins, or more prompts are drawn.
void UseBatch(JobParts& job);
/// DEADLINE_EXCEEDED once the controller takes too long to build it.
absl::Status CheckBatchDeadline(const JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_BATCH_WORK_H_
