// References shared by the parts that work on trajectories: the trajectories, the queues of the
// roles that work on them, and the admission of responses. The TrajectoryScheduler owns all of
// them.
#ifndef BATON_CONTROLLER_CORE_TRAJECTORIES_TRAJECTORY_WORK_H_
#define BATON_CONTROLLER_CORE_TRAJECTORIES_TRAJECTORY_WORK_H_

#include "controller/core/dispatch/role_queues.h"
#include "controller/core/trajectories/admission.h"
#include "controller/core/trajectories/trajectory_table.h"

namespace baton::controller {

struct TrajectoryWork {
  TrajectoryTable& table;
  RoleQueues& queues;
  const Admission& admission;
};

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_TRAJECTORIES_TRAJECTORY_WORK_H_
