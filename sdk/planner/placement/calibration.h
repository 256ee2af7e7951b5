// Calibration of the simulators' rooflines by the times that a job really took.
#ifndef BATON_SDK_PLANNER_PLACEMENT_CALIBRATION_H_
#define BATON_SDK_PLANNER_PLACEMENT_CALIBRATION_H_

#include <vector>

#include "sdk/planner/placement/simulators.h"

namespace baton::placement {

/// Steps of a job as it was recorded, on the device that is planned for.
struct Recording {
  PlannedModel actor;
  Workload workload;                     ///< With the lengths that its sequences had on average.
  RankLayout training;                   ///< Layout of the actor's group.
  RankLayout rollouts;                   ///< data: replicas; tensor: ranks of each.
  double kv_bytes = 0;                   ///< KV cache of a replica.
  std::vector<double> training_seconds;  ///< Seconds of the actor's updates, step by step.
  std::vector<double> generation_seconds;
};

/// The middle value; of an even number the lower of the two. 0 for none.
double Median(std::vector<double> values);

/// The median of recorded times over the simulators' times of the same layout. A time that was not
/// recorded keeps the factor 1; scoring takes training's, for both are bound by the same products
/// and a job records of scoring only what outlasts generation. `device` is of one rank.
Calibration Calibrate(const Device& device, const Recording& recording);

}  // namespace baton::placement

#endif  // BATON_SDK_PLANNER_PLACEMENT_CALIBRATION_H_
