// Checks of spec.rollout.speculation against the rest of a spec.
#ifndef BATON_CONTROLLER_SPEC_SETTINGS_CHECK_SPECULATION_H_
#define BATON_CONTROLLER_SPEC_SETTINGS_CHECK_SPECULATION_H_

#include <string>

#include "baton/v1/job_spec.pb.h"
#include "sdk/common/messages/violations.h"

namespace baton::controller {

/// Fills in spec.rollout.speculation of a job of kind rl, and adds its problems. Pools must be
/// filled in. Pure.
void CheckSpeculation(const v1::Dataflow& dataflow, v1::JobSpec* spec, Violations* out);

/// True if idle rollouts sample responses to upcoming prompts (speculation.run_ahead).
bool RunsAhead(const v1::JobSpec& effective);

/// The name in `seed_from: job:NAME`, without a project; "": there is none, or it is not valid.
std::string SeedJob(const v1::JobSpec& effective);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_SETTINGS_CHECK_SPECULATION_H_
