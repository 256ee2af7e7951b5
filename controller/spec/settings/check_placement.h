// Checks of the part of `spec.resources` that says which roles share devices.
#ifndef BATON_CONTROLLER_SPEC_SETTINGS_CHECK_PLACEMENT_H_
#define BATON_CONTROLLER_SPEC_SETTINGS_CHECK_PLACEMENT_H_

#include "baton/v1/job_spec.pb.h"
#include "sdk/common/messages/violations.h"

namespace baton::controller {

/// Finds every problem of placement and pools beyond single fields: an unknown role, a role in two
/// pools, a layout that does not span its pool's devices or that Baton's engine does not support
/// (pipeline stages; tensor ranks of a role without `parallel`), pools that together are larger
/// than the existing devices; with placement auto, no devices or device, or a number that it
/// chooses. `violations` has the problems of single fields. `given`: the user's spec, without
/// defaults. Fields are paths from `spec`. Pure.
void CheckPlacement(const v1::JobSpec& given, const v1::Dataflow& dataflow, Violations* violations);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_SPEC_SETTINGS_CHECK_PLACEMENT_H_
