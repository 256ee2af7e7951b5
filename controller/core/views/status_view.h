// Status view of a job for people and watchers.
#ifndef BATON_CONTROLLER_CORE_VIEWS_STATUS_VIEW_H_
#define BATON_CONTROLLER_CORE_VIEWS_STATUS_VIEW_H_

#include "absl/time/time.h"
#include "baton/v1/job_service.pb.h"
#include "controller/core/steps/job_parts.h"

namespace baton::controller {

/// The job's workers, its phase, and how much of the phase is done.
v1::Job ProgressOf(const JobParts& job);
/// The job's waits, and the state of each node of its dataflow.
v1::ExplainJobResponse ExplainJob(const JobParts& job, absl::Time now);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_VIEWS_STATUS_VIEW_H_
