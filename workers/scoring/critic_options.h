// A job's spec in the critic's terms.
#ifndef BATON_WORKERS_SCORING_CRITIC_OPTIONS_H_
#define BATON_WORKERS_SCORING_CRITIC_OPTIONS_H_

#include "absl/status/statusor.h"
#include "baton/v1/job_spec.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "workers/engine/scalar_loss.h"

namespace baton::scoring {

/// The spec as the critic's optimizer reads it: `actor` with what spec.critic.train sets instead.
v1::JobSpec SpecOfCritic(const v1::JobSpec& spec);

/// Update.loss "value" with the numbers of spec.critic and spec.algorithm.loss_agg_mode, changed by
/// Update.options: cliprange_value, loss_agg_mode, loss_scale_factor. INVALID_ARGUMENT names
/// another loss, an unknown option, or one of the wrong type.
absl::StatusOr<engine::ValueLossSpec> MakeValueLossSpec(const v1::JobSpec& spec,
                                                        const v1::Update& update);

}  // namespace baton::scoring

#endif  // BATON_WORKERS_SCORING_CRITIC_OPTIONS_H_
