#include "workers/engine/training/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton::engine {
namespace {

constexpr double kPi = 3.14159265358979323846;

}  // namespace

absl::StatusOr<LrSchedule> LrSchedule::Create(absl::string_view shape, double peak,
                                              double min_ratio, int64_t warmup_steps,
                                              int64_t total_steps) {
  std::vector<std::string> errors;
  Shape parsed = Shape::kConstant;
  if (shape == "linear") {
    parsed = Shape::kLinear;
  } else if (shape == "cosine") {
    parsed = Shape::kCosine;
  } else if (shape != "constant") {
    errors.push_back(absl::StrCat("lr_schedule: '", shape, "' is not constant, linear or cosine"));
  }
  if (!std::isfinite(peak) || peak < 0) {
    errors.push_back(absl::StrCat("lr: ", peak, " is not a finite number of at least 0"));
  }
  if (!(min_ratio >= 0 && min_ratio <= 1)) {
    errors.push_back(absl::StrCat("min_lr_ratio: ", min_ratio, " is not in [0, 1]"));
  }
  if (warmup_steps < 0) {
    errors.push_back(absl::StrCat("lr_warmup_steps: ", warmup_steps, " is negative"));
  }
  if (parsed != Shape::kConstant && total_steps <= warmup_steps) {
    errors.push_back(absl::StrCat("total_steps: ", total_steps,
                                  " does not exceed lr_warmup_steps (", warmup_steps, "), which a ",
                                  shape, " schedule needs"));
  }
  if (!errors.empty()) return absl::InvalidArgumentError(absl::StrJoin(errors, "; "));
  return LrSchedule(parsed, peak, min_ratio, warmup_steps, total_steps);
}

double LrSchedule::At(int64_t step, int64_t part, int64_t parts) const {
  // All in updates, as if each step made as many.
  const int64_t update = step * parts + part;
  const int64_t warmup = warmup_steps_ * parts, total = total_steps_ * parts;
  if (update < warmup) {
    return peak_ * static_cast<double>(update + 1) / warmup;
  }
  if (shape_ == Shape::kConstant) return peak_;
  const double fraction = static_cast<double>(update - warmup) / (total - warmup);
  const double progress = std::min(1.0, fraction);
  const double fall =
      shape_ == Shape::kLinear ? 1 - progress : 0.5 * (1 + std::cos(kPi * progress));
  return peak_ * (min_ratio_ + (1 - min_ratio_) * fall);
}

}  // namespace baton::engine
