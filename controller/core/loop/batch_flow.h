// From complete prompt groups to the batch that roles train on.
//
//   complete --TakeBatch--> the runtime builds it --OnBatchBuilt--> the update
//
// After a restart in the middle of an update the same batch is built again, of the groups that the
// job's row names.
#ifndef BATON_CONTROLLER_CORE_LOOP_BATCH_FLOW_H_
#define BATON_CONTROLLER_CORE_LOOP_BATCH_FLOW_H_

#include "absl/status/status.h"
#include "controller/core/job/events.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// Draws the groups of the next batch, and takes them out of the work once the scores are there
/// that are made at the draw. False: that is not so yet, or there are not enough groups.
bool TakeBatch(JobParts& job);
/// The same of the batch that an update has begun with before a restart.
bool TakeRestoredBatch(JobParts& job);
/// After a restart: what was made of a stored trajectory at its draw is kept, or forgotten.
void RecallDrawn(const JobParts& job, TrajectoryInfo& trajectory);
/// Payloads of the batch are lost, whether it was taken or not.
bool LosesBatch(const PayloadLost& event, const JobParts& job);

/// Asks for the batch that was taken.
void BuildBatchOf(JobParts& job);
/// The batch stands. One that the job no longer waits for is ignored.
void OnBatchBuilt(const BatchBuilt& event, JobParts& job);
/// DEADLINE_EXCEEDED once the controller takes too long to build it.
absl::Status CheckBatchDeadline(const JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_BATCH_FLOW_H_
