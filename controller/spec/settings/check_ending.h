// Checks of early stopping and of the best checkpoint: the settings of spec.trainer that learning.h
// uses.
#ifndef BATON_CONTROLLER_SPEC_SETTINGS_CHECK_ENDING_H_
#define BATON_CONTROLLER_SPEC_SETTINGS_CHECK_ENDING_H_

#include "baton/v1/job_spec.pb.h"
#include "sdk/common/messages/violations.h"

namespace baton::controller {

/// Fills in trainer.keep_best, its mode and that of trainer.early_stop, and adds the problems of
/// their metrics. The other settings of trainer, and data.val_files, are filled in already.
void CheckEnding(v1::JobSpec* spec, Violations* out);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_SETTINGS_CHECK_ENDING_H_
