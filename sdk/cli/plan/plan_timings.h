// The recorded timings of a job's steps, by which `baton plan` calibrates itself.
#ifndef BATON_SDK_CLI_PLAN_PLAN_TIMINGS_H_
#define BATON_SDK_CLI_PLAN_PLAN_TIMINGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "baton/v1/job_service.pb.h"
#include "baton/v1/job_spec.pb.h"
#include "sdk/planner/placement/calibration.h"

namespace baton::cli {

/// Reads the output of `baton metrics JOB -o json`. InvalidArgument: it is something else.
absl::StatusOr<v1::ListMetricsResponse> ParseTimings(const std::string& json);

/// The steps of a job of this spec: `timing_s/update_actor`, `timing_s/gen`, `prompt_length/mean`
/// and `response_length/mean`; the first step, which warms up, is left out where there are more.
/// `workload` and `actor` are the spec's. FailedPrecondition: no step has a time.
absl::StatusOr<placement::Recording> MakeRecording(const v1::JobSpec& spec,
                                                   const v1::ListMetricsResponse& steps,
                                                   const placement::Workload& workload,
                                                   const placement::PlannedModel& actor);

}  // namespace baton::cli

#endif  // BATON_SDK_CLI_PLAN_PLAN_TIMINGS_H_
