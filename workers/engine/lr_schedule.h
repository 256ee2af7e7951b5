// The learning rate as a pure function of the optimizer step.
//
//   warm-up   s < warmup_steps:  lr * (s + 1) / warmup_steps
//   then      p = min(1, (s - warmup_steps) / (total_steps - warmup_steps)), floor = min_ratio
//     constant  lr
//     linear    lr * (floor + (1 - floor) * (1 - p))
//     cosine    lr * (floor + (1 - floor) * (1 + cos(pi p)) / 2)
//
// Steps count from 0, so the first update of a warm-up already moves. Past total_steps the rate
// stays at lr * floor.
#ifndef BATON_WORKERS_ENGINE_LR_SCHEDULE_H_
#define BATON_WORKERS_ENGINE_LR_SCHEDULE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::engine {

/// A plain value; every thread may read it.
class LrSchedule {
 public:
  enum class Shape { kConstant, kLinear, kCosine };

  /// `shape`: "constant", "linear" or "cosine". InvalidArgument for another name, a rate that is
  /// negative or not finite, a `min_ratio` outside [0, 1], negative steps, or a decaying shape
  /// whose `total_steps` do not exceed `warmup_steps`. A constant schedule ignores `total_steps`.
  static absl::StatusOr<LrSchedule> Create(absl::string_view shape, double peak, double min_ratio,
                                           int64_t warmup_steps, int64_t total_steps);

  /// The rate of update number `step` (0 is the first).
  double At(int64_t step) const;

 private:
  LrSchedule(Shape shape, double peak, double min_ratio, int64_t warmup_steps, int64_t total_steps)
      : shape_(shape),
        peak_(peak),
        min_ratio_(min_ratio),
        warmup_steps_(warmup_steps),
        total_steps_(total_steps) {}

  Shape shape_;
  double peak_;
  double min_ratio_;
  int64_t warmup_steps_;
  int64_t total_steps_;
};

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_LR_SCHEDULE_H_
