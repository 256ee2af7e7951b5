// The assignment of a role to workers: one by one, or to all ranks of a group together.
//
// Owns nothing: WorkerSlots has the state of slots, RankGroups that of groups. A role without a
// group is taken on at once. The ranks of a group gather first; once all are there, they begin a
// new epoch and take the role on together, because collectives fail when a rank is missing. If a
// rank is lost, the remaining ranks gather again:
//
//   gathering --all are there--> a new epoch: assigning --all took it on--> at work
//       ^                                                                          |
//       +------------------- a rank is lost, or the group stays broken ------------+
#ifndef BATON_CONTROLLER_CORE_WORKERS_TAKE_ROLE_H_
#define BATON_CONTROLLER_CORE_WORKERS_TAKE_ROLE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/core/job/effect_sink.h"
#include "controller/core/job/job_core_options.h"
#include "controller/core/trajectories/trajectory_scheduler.h"
#include "controller/core/weights/policy_versions.h"
#include "controller/core/workers/group_commands.h"
#include "controller/core/workers/rank_groups.h"
#include "controller/core/workers/worker_slots.h"

namespace baton::controller {

/// The parts that a worker's role concerns.
struct RoleContext {
  EffectSink& out;
  WorkerSlots& slots;
  RankGroups& groups;
  GroupCommands& commands;
  PolicyVersions& versions;
  TrajectoryScheduler& scheduler;
  const JobCoreOptions& options;
  int64_t saved_step;  ///< Step of the newest checkpoint, where roles that train start; -1: none.
};

/// The worker of the slot takes its role on: at once, or with the other ranks when all are there.
void TakeRoleOn(const RoleSlot& slot, const RoleContext& context);
/// The answer to assign_role, which the slot awaits. True: the worker plays the role now. An error:
/// the job fails.
absl::StatusOr<bool> OnRoleTaken(const TaskDone& event, const RoleSlot& slot,
                                 const RoleContext& context);
/// Lets the worker get work of its role; for a group, once all ranks are ready.
void JoinQueue(const RoleSlot& slot, const RoleContext& context);

/// The remaining ranks of a group gather, and begin anew once all are there.
void FormAnew(const Group& group, const RoleContext& context);
/// A rank misses another one, as the failed task says. An error: the job fails.
absl::Status BreakGroup(const Group& group, const TaskDone& event, const RoleContext& context);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_WORKERS_TAKE_ROLE_H_
