// The flow of a checkpoint's save. Milestones says when one is due, and which checkpoints are kept.
//
// clang-format off
//   BeginSave: a command to each group --> the ranks write their parts --all are done-->
//       the controller adds its own part and renames the folder --OnCommitted--> listed
// clang-format on
//
// Until the new checkpoint is listed, a rollback leads to the one before it. A rollback during its
// completion forgets the new one, because it is then of an earlier incarnation.
#ifndef BATON_CONTROLLER_CORE_LOOP_CHECKPOINT_FLOW_H_
#define BATON_CONTROLLER_CORE_LOOP_CHECKPOINT_FLOW_H_

#include "controller/core/job/events.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// A checkpoint has a part of every role that trains.
void BeginSave(JobParts& job);
/// All ranks of a group have written their parts.
void OnGroupSaved(JobParts& job);
void OnCommitted(const CheckpointCommitted& event, JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_CHECKPOINT_FLOW_H_
