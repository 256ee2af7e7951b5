// The flow of a group's command, from the activity that issues it to the one that uses its result.
//
// Owns nothing: GroupCommands has the commands. A command that found no room is issued again later
// by the activity that then needs it; only its number is remembered.
//
//   IssueCommand --sent as pools and workers let it--> OnCommandAnswer, once per rank
//       --the last rank has answered--> OnGroupUpdated, OnPublished, OnGroupSaved
//       --a rank misses another one--> the group is broken      --no room--> RoomWait
#ifndef BATON_CONTROLLER_CORE_LOOP_COMMAND_FLOW_H_
#define BATON_CONTROLLER_CORE_LOOP_COMMAND_FLOW_H_

#include "controller/core/job/events.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// A rank's answer to its group's command. The job still waits for it.
void OnCommandAnswer(const TaskDone& event, JobParts& job);
/// A rank that lets its command's deadline pass is lost to the job.
void CheckCommandDeadlines(JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_COMMAND_FLOW_H_
