// Checks that a user may pause or resume a job in its present state.
#ifndef BATON_CONTROLLER_RUNTIME_CLUSTER_PAUSE_CHECKS_H_
#define BATON_CONTROLLER_RUNTIME_CLUSTER_PAUSE_CHECKS_H_

#include "absl/status/status.h"
#include "controller/core/loop/job_core.h"

namespace baton::controller {

/// FAILED_PRECONDITION, JOB_ENDED: the job stops or has ended.
absl::Status CheckPause(const JobCore& core);
/// The same, for a job that stops, has succeeded, or ended without a checkpoint to go on from.
absl::Status CheckResume(const JobCore& core);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_CLUSTER_PAUSE_CHECKS_H_
