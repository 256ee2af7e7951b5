// The tasks of trajectories that workers have: is a result of one still wanted, and what becomes of
// them when a worker comes back, is lost, or leaves its role. Functions on the work in progress
// (TrajectoryScheduler), which owns the trajectories and the queues.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_RUNNING_TASKS_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_RUNNING_TASKS_H_

#include <cstdint>
#include <string>

#include "controller/core/job/effect_sink.h"
#include "controller/core/job/task.h"
#include "controller/core/trajectories/trajectory_scheduler.h"
#include "controller/core/trajectories/work_context.h"

namespace baton::controller {

/// The task is wanted of that worker, which plays the task's role.
bool IsWanted(const TrajectoryScheduler& scheduler, const std::string& worker, const TaskRef& ref);
/// A worker that came back runs the task `ref`. It keeps the task unless this controller has begun
/// the task anew, or would ask for another prompt or other weights. `hybrid`: the worker's rollout
/// samples the weights that the actor on the same ranks trains.
void AdoptTask(TrajectoryScheduler& scheduler, const std::string& worker, const TaskRef& ref,
               bool hybrid, const WorkContext& context);
/// The worker no longer works for the role: its tasks go to others. `stop`: why it is told to stop;
/// empty: it is lost.
void TakeTasksBack(TrajectoryScheduler& scheduler, const std::string& role,
                   const std::string& worker, const std::string& stop, EffectSink& out);
/// The worker no longer runs this. It is first in the queue again, as its next attempt.
void RequeueTask(TrajectoryScheduler& scheduler, const std::string& role, uint64_t work,
                 const EffectSink& out);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_RUNNING_TASKS_H_
