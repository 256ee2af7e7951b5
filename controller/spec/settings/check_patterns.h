// Checks of the rewards' regular expressions, which a worker would otherwise refuse once it has its
// role.
#ifndef BATON_CONTROLLER_SPEC_SETTINGS_CHECK_PATTERNS_H_
#define BATON_CONTROLLER_SPEC_SETTINGS_CHECK_PATTERNS_H_

#include "baton/v1/job_spec.pb.h"
#include "sdk/common/messages/violations.h"

namespace baton::controller {

/// Adds the problems of the rules of spec.reward, of spec.judge, and of the options of the
/// dataflow's nodes of role judge. Pure.
void CheckPatterns(const v1::JobSpec& effective, const v1::Dataflow& dataflow, Violations* out);

/// Adds those patterns that compile and can never match.
void CheckMatches(const v1::JobSpec& effective, const v1::Dataflow& dataflow, Violations* out);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_SETTINGS_CHECK_PATTERNS_H_
