// The least number of responses to a prompt that an update needs.
#ifndef BATON_CONTROLLER_SPEC_SETTINGS_LEAST_RESPONSES_H_
#define BATON_CONTROLLER_SPEC_SETTINGS_LEAST_RESPONSES_H_

#include <cstdint>

#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// The number of responses to a prompt that must have a reward for any to be trained on. 2 if they
/// are compared with each other: by the estimator (EstimatorNeeds::groups), or by a score node over
/// the group; otherwise, and if rollout.n is 1, 1. `spec` and `dataflow` are a job's effective
/// ones.
uint32_t LeastResponses(const v1::JobSpec& spec, const v1::Dataflow& dataflow);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_SETTINGS_LEAST_RESPONSES_H_
