#include "controller/core/job/step_plan.h"

#include "controller/spec/settings/schedule.h"

namespace baton::controller {

StepPlan::StepPlan(const v1::Job& submitted) {
  if (!IsAsync(submitted.effective_spec(), submitted.dataflow())) return;
  rounds = false;
  evaluation_blocks = false;
  keeps_groups = true;
  many_versions = true;
}

}  // namespace baton::controller
