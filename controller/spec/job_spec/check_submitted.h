// Mistakes that a new spec is refused for, and that a stored job may have: an earlier release took
// it, and the job goes on, or shows how it failed.
#ifndef BATON_CONTROLLER_SPEC_JOB_SPEC_CHECK_SUBMITTED_H_
#define BATON_CONTROLLER_SPEC_JOB_SPEC_CHECK_SUBMITTED_H_

#include <vector>

#include "baton/v1/error.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// Lists what the job of `effective` and `dataflow` would fail for, or never learn from, although
/// each setting is within its bounds:
///   - paths of `given`, which its user wrote, that begin with "~": `baton` replaces a user's own
///     home before it submits, and here nobody's home is known
///   - empty stop strings
///   - patterns that can never match (impossible_pattern.h)
/// Pure.
std::vector<v1::FieldViolation> CheckSubmitted(const v1::JobSpec& given,
                                               const v1::JobSpec& effective,
                                               const v1::Dataflow& dataflow);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_JOB_SPEC_CHECK_SUBMITTED_H_
