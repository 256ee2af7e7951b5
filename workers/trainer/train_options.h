// A job's spec in the engine's terms.
#ifndef BATON_WORKERS_TRAINER_TRAIN_OPTIONS_H_
#define BATON_WORKERS_TRAINER_TRAIN_OPTIONS_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "baton/v1/job_spec.pb.h"
#include "baton/v1/worker_service.pb.h"
#include "workers/engine/loss.h"
#include "workers/engine/optimizer.h"
#include "workers/engine/trainer.h"

namespace baton::trainer {

/// Schedules count optimizer steps: those of spec.actor and spec.trainer times the optimizer steps
/// that one training step takes (epochs, and mini-batches of a full batch).
engine::OptimizerSpec MakeOptimizerSpec(const v1::JobSpec& spec);

/// On a CPU micro-batches stay small enough for its caches (which changes no result): at most
/// kDefaultMaxTokenLen rows, or the longest sequence, of the budget that the spec allows.
engine::UpdateOptions MakeUpdateOptions(const v1::JobSpec& spec,
                                        absl::Span<const engine::TrainSequence> batch, bool on_cpu);

/// Update.loss (engine::LossNames) with the numbers of spec.algorithm, changed by Update.options,
/// whose keys are those of LossSpec. INVALID_ARGUMENT lists everything wrong at once: an unknown
/// loss, options that it does not have, types, bounds.
absl::StatusOr<engine::LossSpec> MakeLossSpec(const v1::JobSpec& spec, const v1::Update& update);

}  // namespace baton::trainer

#endif  // BATON_WORKERS_TRAINER_TRAIN_OPTIONS_H_
