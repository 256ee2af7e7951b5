// Tasks of trajectories on workers: which results are still wanted, and what happens to the tasks
// when a worker comes back, is lost, or leaves its role. Functions on the work in progress
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

/// True if the job wants the task from that worker, which plays the task's role.
bool IsWanted(const TrajectoryScheduler& scheduler, const std::string& worker, const TaskRef& ref);
/// A worker that came back runs the task `ref`. It keeps the task unless this controller has begun
/// the task anew, or would ask for another prompt or other weights. `hybrid`: the worker's rollout
/// samples the weights that the actor on the same ranks trains.
void AdoptTask(TrajectoryScheduler& scheduler, const std::string& worker, const TaskRef& ref,
               bool hybrid, const WorkContext& context);
/// The worker no longer works for the role: its tasks go to others. `stop`: the reason for which it
/// is told to stop; empty: it is lost.
void TakeTasksBack(TrajectoryScheduler& scheduler, const std::string& role,
                   const std::string& worker, const std::string& stop, EffectSink& out);
/// The worker no longer runs this task. It goes to the front of the queue, as its next attempt.
void RequeueTask(TrajectoryScheduler& scheduler, const std::string& role, uint64_t work,
                 const EffectSink& out);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_RUNNING_TASKS_H_
