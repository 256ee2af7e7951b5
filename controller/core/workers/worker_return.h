// Return of a worker that attaches again: what it must take on, do or stop.
//
// Owns nothing. A worker that was cut off reports which roles it holds, what it runs and which
// results it is about to send. A task that the worker does not know was lost on the way, and is
// sent again; tasks that it knows go on.
#ifndef BATON_CONTROLLER_CORE_WORKERS_WORKER_RETURN_H_
#define BATON_CONTROLLER_CORE_WORKERS_WORKER_RETURN_H_

#include "controller/core/workers/take_role.h"

namespace baton::controller {

/// True if the worker fenced itself while it was cut off: it lacks a role that it played, and will
/// not be told to take the role on anew.
bool GaveUpRole(const WorkerReconnected& event, const RoleContext& context);
/// Notes whether the worker has the commands of its groups.
void NoteCommands(const WorkerReconnected& event, const RoleContext& context);
/// The worker goes on with taking its role on or leaving it, if it has not finished.
void ResumeRole(const RoleSlot& slot, const WorkerReconnected& event, const RoleContext& context);
/// The worker, which plays its role, goes on with the role's trajectories. `first_time`: since this
/// controller started.
void ResumeWork(const RoleSlot& slot, const WorkerReconnected& event, bool first_time,
                const RoleContext& context);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_WORKERS_WORKER_RETURN_H_
