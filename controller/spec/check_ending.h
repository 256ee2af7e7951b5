// When a job may end before its last step, and which checkpoint is its best: the settings of
// spec.trainer that learning.h obeys.
#ifndef BATON_CONTROLLER_SPEC_CHECK_ENDING_H_
#define BATON_CONTROLLER_SPEC_CHECK_ENDING_H_

#include "baton/v1/job_spec.pb.h"
#include "sdk/messages/violations.h"

namespace baton::controller {

/// Fills in the modes of trainer.early_stop and keep_best, and adds what is wrong with their
/// metrics. The other settings of trainer, and data.val_files, stand already.
void CheckEnding(v1::JobSpec* spec, Violations* out);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_CHECK_ENDING_H_
