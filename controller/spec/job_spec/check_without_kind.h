// Check of a spec whose author forgot its kind, and perhaps made other mistakes.
#ifndef BATON_CONTROLLER_SPEC_JOB_SPEC_CHECK_WITHOUT_KIND_H_
#define BATON_CONTROLLER_SPEC_JOB_SPEC_CHECK_WITHOUT_KIND_H_

#include "baton/v1/job_spec.pb.h"
#include "controller/spec/job_spec/spec.h"

namespace baton::controller {

/// The answer of CheckSpec for `spec`, which has no kind: this problem, and all others. If the
/// preset or the sections show which kind is meant, it is checked as one of that kind; otherwise
/// the violations are those that every kind would have. Pure.
CheckedSpec CheckWithoutKind(const v1::JobSpec& spec);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_JOB_SPEC_CHECK_WITHOUT_KIND_H_
