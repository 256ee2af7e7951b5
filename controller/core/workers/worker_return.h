// What follows when a worker attaches again: what it must take on, do or stop.
//
// Owns nothing. A worker that was cut off tells which roles it holds, what it runs and which
// results it is about to send. What the job asked of it and it does not know was lost on the way,
// and is asked again; what it knows goes on.
#ifndef BATON_CONTROLLER_CORE_WORKERS_WORKER_RETURN_H_
#define BATON_CONTROLLER_CORE_WORKERS_WORKER_RETURN_H_

#include "controller/core/workers/take_role.h"

namespace baton::controller {

/// It fenced itself while it was cut off: it lacks a role that it played, and will not be asked to
/// take the role on anew.
bool GaveUpRole(const WorkerBack& event, const RoleContext& context);
/// Whether it has the commands of its groups.
void NoteCommands(const WorkerBack& event, const RoleContext& context);
/// It goes on with taking its role on or leaving it, if it has not finished that.
void ResumeRole(const RoleSlot& slot, const WorkerBack& event, const RoleContext& context);
/// It goes on with the trajectories of its role, which it plays. `first_time`: since a controller
/// began.
void ResumeWork(const RoleSlot& slot, const WorkerBack& event, bool first_time,
                const RoleContext& context);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_WORKERS_WORKER_RETURN_H_
