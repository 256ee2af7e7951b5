// When a job may end before its last step, and which checkpoint is its best: the settings of
// spec.trainer that learning.h obeys.
#ifndef BATON_CONTROLLER_SPEC_CHECK_ENDING_H_
#define BATON_CONTROLLER_SPEC_CHECK_ENDING_H_

#include <vector>

#include "baton/v1/error.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// Fills in the defaults of trainer.fail_after_idle_steps, early_stop, max_hours, keep_best and
/// keep_best_mode, and adds what is wrong with them. test_freq and val_files stand already.
void CheckEnding(v1::JobSpec* spec, std::vector<v1::FieldViolation>* out);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_CHECK_ENDING_H_
