// Automatic placement (`placement: auto`): chooses the fastest pools, by the search of `baton
// plan`.
#ifndef BATON_CONTROLLER_RUNTIME_SUBMIT_PLAN_PLACEMENT_H_
#define BATON_CONTROLLER_RUNTIME_SUBMIT_PLAN_PLACEMENT_H_

#include <string>
#include <vector>

#include "baton/v1/error.pb.h"
#include "baton/v1/job_spec.pb.h"

namespace baton::controller {

/// If `given` has `placement: auto` and no problem, chooses pools and layouts and fills them into
/// `effective`. The model paths of `effective` are resolved, because their config.json is read.
/// Does nothing for any other spec. Violations: a model cannot be measured, or nothing fits on
/// resources.devices.
std::vector<v1::FieldViolation> PlanPlacement(const v1::JobSpec& given,
                                              const v1::Dataflow& dataflow, v1::JobSpec* effective);

/// "actor+rollout 4 | critic 2": pools and their workers, for people; "" without pools.
std::string PlacementText(const v1::ResourcesSpec& resources);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_SUBMIT_PLAN_PLACEMENT_H_
