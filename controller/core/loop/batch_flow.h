// Construction of a step's batch from complete prompt groups.
//
//   complete --TakeBatch--> the runtime builds it --OnBatchBuilt--> the update
//
// After a restart in the middle of an update, the same batch is built again from the groups that
// the job's row names.
#ifndef BATON_CONTROLLER_CORE_LOOP_BATCH_FLOW_H_
#define BATON_CONTROLLER_CORE_LOOP_BATCH_FLOW_H_

#include "absl/status/status.h"
#include "controller/core/job/events.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// Selects the groups of the next batch, and takes them out of the work once the scores that are
/// made at the selection are there. False: they are not there yet, or there are not enough groups.
bool TakeBatch(JobParts& job);
/// The same for the batch of an update that had begun before a restart.
bool TakeRestoredBatch(JobParts& job);
/// After a restart: keeps or forgets the scores that a stored trajectory got when a batch selected
/// it.
void RecallSelected(const JobParts& job, TrajectoryInfo& trajectory);
/// True if payloads of the batch are lost, whether it was taken or not.
bool LosesBatch(const PayloadLost& event, const JobParts& job);

/// Asks for the batch that was taken.
void BuildBatchOf(JobParts& job);
/// The batch is built. A batch that the job no longer waits for is ignored.
void OnBatchBuilt(const BatchBuilt& event, JobParts& job);
/// DEADLINE_EXCEEDED once the controller takes too long to build the batch.
absl::Status CheckBatchDeadline(const JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_BATCH_FLOW_H_
