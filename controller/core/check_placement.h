// What is wrong with the part of `spec.resources` that says which roles share devices.
#ifndef BATON_CONTROLLER_CORE_CHECK_PLACEMENT_H_
#define BATON_CONTROLLER_CORE_CHECK_PLACEMENT_H_

#include <vector>

#include "baton/v1/error.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// Every problem of placement, pools, devices and device: an unknown placement, device or role, a
/// role in two pools or with a model and in none, a layout that is not its pool's devices, pools
/// that are larger together than the devices there are. Fields are paths from `spec.resources`.
/// Pure.
void CheckPlacement(const v1::JobSpec& effective, const v1::Dataflow& dataflow,
                    std::vector<v1::FieldViolation>* violations);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_CORE_CHECK_PLACEMENT_H_
