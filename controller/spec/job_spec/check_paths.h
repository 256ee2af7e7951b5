// Paths of a spec that no program of the controller can mean.
#ifndef BATON_CONTROLLER_SPEC_JOB_SPEC_CHECK_PATHS_H_
#define BATON_CONTROLLER_SPEC_JOB_SPEC_CHECK_PATHS_H_

#include "baton/v1/job_spec.pb.h"
#include "sdk/common/messages/violations.h"

namespace baton::controller {

/// Adds the models, data files and working directories that begin with "~". `baton` replaces a
/// user's own home before it submits; here nobody's home is known. `effective` has no models yet but
/// those that the user gave.
void CheckPaths(v1::JobSpec* effective, Violations* out);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_JOB_SPEC_CHECK_PATHS_H_
