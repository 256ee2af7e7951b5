// The work that a restarted controller goes on with.
#ifndef BATON_CONTROLLER_CORE_LOOP_RESTORE_WORK_H_
#define BATON_CONTROLLER_CORE_LOOP_RESTORE_WORK_H_

#include "baton/store/v1/rows.pb.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// A trajectory row of an earlier controller belongs to what is open.
bool IsOfOpenWork(const store::v1::TrajectoryRow& row, const JobParts& job);
/// A row of a group that the step in progress has given up: its errors still count.
void RecallGivenUp(const store::v1::TrajectoryRow& row, JobParts& job);
/// The data are read: makes the trajectories of all that is open, as far as they are stored. What
/// workers still run or have just finished finds its place.
void RestoreWork(JobParts& job);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_LOOP_RESTORE_WORK_H_
