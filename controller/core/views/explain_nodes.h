// The graph of a job's dataflow with the current state of each node, for ExplainJob.
#ifndef BATON_CONTROLLER_CORE_VIEWS_EXPLAIN_NODES_H_
#define BATON_CONTROLLER_CORE_VIEWS_EXPLAIN_NODES_H_

#include "baton/v1/job_service.pb.h"
#include "controller/core/job/activities.h"
#include "controller/core/trajectories/trajectory_scheduler.h"
#include "controller/core/workers/group_commands.h"
#include "controller/core/workers/rank_groups.h"

namespace baton::controller {

/// The parts that explain the nodes.
struct NodesView {
  const v1::JobSpec& spec;
  const v1::Dataflow& dataflow;
  const TrajectoryScheduler& scheduler;
  const RankGroups& groups;
  const GroupCommands& commands;
  Activity activity;
  bool succeeded;  ///< The job ended well: every node is done.
};

/// Adds a NodeStatus for each node: generations, scores, the advantage, updates.
void ExplainNodes(const NodesView& view, v1::ExplainJobResponse* out);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_VIEWS_EXPLAIN_NODES_H_
