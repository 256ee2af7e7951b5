// Waits of the trajectories of the work in progress, for ExplainJob.
#ifndef BATON_CONTROLLER_CORE_VIEWS_EXPLAIN_TRAJECTORIES_H_
#define BATON_CONTROLLER_CORE_VIEWS_EXPLAIN_TRAJECTORIES_H_

#include "baton/v1/job_spec.pb.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/job_core_options.h"
#include "controller/core/job/roster.h"
#include "controller/core/job/wait_list.h"
#include "controller/core/trajectories/trajectory_scheduler.h"

namespace baton::controller {

/// The parts that explain the waits.
struct TrajectoriesView {
  const TrajectoryScheduler& scheduler;
  const Roster& roster;
  const v1::Dataflow& dataflow;
  const JobCoreOptions& options;
  const EffectSink& out;
};

/// For each kind of task, explains only the running task that has not moved for longest.
void ExplainTrajectories(const TrajectoriesView& view, WaitList& waits);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_VIEWS_EXPLAIN_TRAJECTORIES_H_
