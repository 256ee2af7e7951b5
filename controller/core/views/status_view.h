// What people and watchers see of a job.
#ifndef BATON_CONTROLLER_CORE_VIEWS_STATUS_VIEW_H_
#define BATON_CONTROLLER_CORE_VIEWS_STATUS_VIEW_H_

#include "absl/time/time.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// Its workers, its phase, and how much of the phase is done.
v1::Job ProgressOf(const JobParts& job);
/// What the job waits for, and what each node of its dataflow does.
v1::ExplainJobResponse ExplainJob(const JobParts& job, absl::Time now);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_VIEWS_STATUS_VIEW_H_
