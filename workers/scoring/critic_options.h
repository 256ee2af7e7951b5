// A job's spec in the critic's terms.
#ifndef BATON_WORKERS_SCORING_CRITIC_OPTIONS_H_
#define BATON_WORKERS_SCORING_CRITIC_OPTIONS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "baton/v1/job_spec.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "workers/engine/scalar_loss.h"

namespace baton::scoring {

/// The spec in the terms of one critic. `critic` is the section of `role` ("critic" or
/// "cost_critic"); `actor`, which its optimizer reads, has what that section's `train` sets
/// instead.
v1::JobSpec SpecOfCritic(const v1::JobSpec& spec, absl::string_view role = "critic");

/// Update.loss "value" with the numbers of spec.critic and spec.algorithm.loss_agg_mode, changed by
/// Update.options: cliprange_value, loss_agg_mode, loss_scale_factor. INVALID_ARGUMENT names
/// another loss, an unknown option, or one of the wrong type.
absl::StatusOr<engine::ValueLossSpec> MakeValueLossSpec(const v1::JobSpec& spec,
                                                        const v1::Update& update);

}  // namespace baton::scoring

#endif  // BATON_WORKERS_SCORING_CRITIC_OPTIONS_H_
