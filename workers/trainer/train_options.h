// A job's spec in the engine's terms.
#ifndef BATON_WORKERS_TRAINER_TRAIN_OPTIONS_H_
#define BATON_WORKERS_TRAINER_TRAIN_OPTIONS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "baton/v1/job_spec.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "sdk/common/schema/loss_options.h"
#include "sdk/common/schema/optimizer_options.h"
#include "workers/engine/training/trainer.h"

namespace baton::trainer {

/// Steps of the job before the first that the actor learns in: those that warm critics up. Its
/// learning rate's schedule begins there.
int64_t FirstStepOfActor(const v1::JobSpec& spec);

/// The optimizer of spec.actor. Schedules count the job's steps, from `first_step` to the last.
OptimizerSpec MakeOptimizerSpec(const v1::JobSpec& spec, int64_t first_step = 0);

/// On a CPU micro-batches stay small enough for its caches (which changes no result): at most
/// kDefaultMaxTokenLen rows, or the longest sequence, of the budget that the spec allows.
/// UpdateOptions.step is the caller's to set.
engine::UpdateOptions MakeUpdateOptions(const v1::JobSpec& spec,
                                        absl::Span<const engine::TrainSequence> batch, bool on_cpu);

/// The loss of an update of `role`, with the options that the update names; the others have their
/// defaults (sdk/common/schema/loss_options.def). The job's spec has no part in it: the controller
/// completes the graph. INVALID_ARGUMENT lists everything wrong at once: a loss that is unknown or
/// not the role's, options that it does not have, types, bounds.
absl::StatusOr<LossSpec> ReadUpdateLoss(absl::string_view role, const v1::Update& update);

}  // namespace baton::trainer

#endif  // BATON_WORKERS_TRAINER_TRAIN_OPTIONS_H_
