// A job's spec in the critic's terms.
#ifndef BATON_WORKERS_TRAINER_CRITIC_OPTIONS_H_
#define BATON_WORKERS_TRAINER_CRITIC_OPTIONS_H_

#include "absl/strings/string_view.h"
#include "baton/v1/job_spec.pb.h"

namespace baton::trainer {

/// The spec in the terms of one critic. `critic` is the section of `role` ("critic" or
/// "cost_critic"); `actor`, which its optimizer reads, has what that section's `train` sets
/// instead.
v1::JobSpec SpecOfCritic(const v1::JobSpec& spec, absl::string_view role = "critic");

}  // namespace baton::trainer

#endif  // BATON_WORKERS_TRAINER_CRITIC_OPTIONS_H_
