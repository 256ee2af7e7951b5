#include "sdk/planner/placement/calibration.h"

#include <algorithm>
#include <cstddef>

namespace baton::placement {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const size_t middle = (values.size() - 1) / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle),
                   values.end());
  return values[middle];
}

Calibration Calibrate(const Device& device, const Recording& recording) {
  Setting plain;
  plain.device = device;
  plain.workload = recording.workload;
  Calibration out;
  const double training = Median(recording.training_seconds);
  const double predicted = TrainingSeconds(plain, recording.actor, recording.training);
  if (training > 0 && predicted > 0) out.training = out.scoring = training / predicted;
  const double generating = Median(recording.generation_seconds);
  const Generation generation =
      SimulateGeneration(plain, recording.actor, recording.rollouts,
                         recording.kv_bytes / recording.rollouts.generation_tensor);
  if (generating > 0 && generation.fits && generation.seconds > 0) {
    out.generation = generating / generation.seconds;
  }
  return out;
}

}  // namespace baton::placement
