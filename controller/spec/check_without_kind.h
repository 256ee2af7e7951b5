// A spec whose author forgot its kind, and made other mistakes.
#ifndef BATON_CONTROLLER_SPEC_CHECK_WITHOUT_KIND_H_
#define BATON_CONTROLLER_SPEC_CHECK_WITHOUT_KIND_H_

#include "baton/v1/job_spec.pb.h"
#include "controller/spec/spec.h"

namespace baton::controller {

/// What CheckSpec says of `spec`, which has no kind: that, and what else is wrong. Where the preset
/// or the sections show which kind is meant, it is checked as one of that kind; elsewhere the
/// violations are those that every kind has. Pure.
CheckedSpec CheckWithoutKind(const v1::JobSpec& spec);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_CHECK_WITHOUT_KIND_H_
