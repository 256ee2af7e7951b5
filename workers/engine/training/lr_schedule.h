// The learning rate as a pure function of the job's step, and of the update's index in the step.
//
// Update k (from 0) of the n that step s (from 0) makes:
//   warm-up   s < warmup_steps:  lr * (s + (k + 1) / n) / warmup_steps
//   then      p = min(1, (s + k / n - warmup_steps) / (total_steps - warmup_steps)),
//             floor = min_ratio
//     constant  lr
//     linear    lr * (floor + (1 - floor) * (1 - p))
//     cosine    lr * (floor + (1 - floor) * (1 + cos(pi p)) / 2)
//
// So the first update of a warm-up already moves, and a decay ends with the job's last step however
// many updates its steps made: a step whose groups were dropped in part makes fewer of them. Past
// total_steps the rate stays at lr * floor.
#ifndef BATON_WORKERS_ENGINE_TRAINING_LR_SCHEDULE_H_
#define BATON_WORKERS_ENGINE_TRAINING_LR_SCHEDULE_H_

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

  /// The rate of update `part` of the `parts` that step `step` makes, all counted from 0.
  double At(int64_t step, int64_t part = 0, int64_t parts = 1) const;

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

#endif  // BATON_WORKERS_ENGINE_TRAINING_LR_SCHEDULE_H_
