// How long a job trains: a number of steps, a number of passes over its data, or not at all.
#ifndef BATON_CONTROLLER_SPEC_SETTINGS_TRAINING_LENGTH_H_
#define BATON_CONTROLLER_SPEC_SETTINGS_TRAINING_LENGTH_H_

#include <cstdint>

#include "baton/v1/job_spec.pb.h"
#include "sdk/common/messages/violations.h"

namespace baton::controller {

/// Adds what is wrong with trainer.total_training_steps, total_epochs and val_only together. With
/// val_only the settings of training and of its end are cleared, since nothing is trained. The
/// caller has not filled in the defaults of `spec->trainer()` yet.
void CheckTrainingLength(v1::JobSpec* spec, Violations* out);

/// Adds a warm-up that leaves no steps for the schedule after it. `effective` has its defaults;
/// without a number of steps, which may depend on the data, nothing is wrong.
void CheckWarmup(const v1::JobSpec& effective, Violations* out);

/// Replaces trainer.total_epochs by trainer.total_training_steps, if it is given, and then checks
/// the warm-up. `examples`: of data.train_files, in the job's own order.
///
/// Batches go on over the end of an epoch: the last batch that begins within the epochs is filled
/// with the first examples of the next one. So there are ⌈epochs · examples / train_batch_size⌉
/// steps, and each example is drawn at least total_epochs times.
void FillSteps(uint64_t examples, v1::JobSpec* effective, Violations* out);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_SETTINGS_TRAINING_LENGTH_H_
