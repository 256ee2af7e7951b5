// Issue of a command to all ranks of a group.
#ifndef BATON_CONTROLLER_CORE_LOOP_ISSUE_COMMAND_H_
#define BATON_CONTROLLER_CORE_LOOP_ISSUE_COMMAND_H_

#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// Issues the command; it is sent when pools and workers allow. The job's activity is `as` from
/// here on.
inline void IssueCommand(TaskKind kind, const Group& group, Activity as, JobParts& job) {
  job.commands.Issue(kind, group, job.out);
  job.Switch(as);
  // The row is stored before a rank gets the command, so a restarted controller waits for its
  // answer.
  job.out.Do(PutJob{});
  SendCommand(group, job.Commands());
}

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_ISSUE_COMMAND_H_
