// Restoration of the work in progress after a restart.
#ifndef BATON_CONTROLLER_CORE_LOOP_RESTORE_WORK_H_
#define BATON_CONTROLLER_CORE_LOOP_RESTORE_WORK_H_

#include "baton/store/v1/rows.pb.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// True if a trajectory row of an earlier controller belongs to an open group or evaluation.
bool IsOfOpenWork(const store::v1::TrajectoryRow& row, const JobParts& job);
/// A row of a group that the step in progress has given up: its errors still count.
void RecallGivenUp(const store::v1::TrajectoryRow& row, JobParts& job);
/// The data are read: makes the trajectories of all open groups and evaluations, with their stored
/// state, and assigns to them what workers still run or have just finished. From then on the core
/// takes results of these tasks.
void RestoreWork(JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_RESTORE_WORK_H_
