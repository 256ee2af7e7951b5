#include "controller/core/trajectories/step_cost.h"

#include <algorithm>
#include <limits>

namespace baton::controller {
namespace {

// A measurement counts half as much after about 350 responses.
constexpr double kDecay = 0.998;
// The least variance of the rows, over their squared mean, that determines a slope.
constexpr double kLeastSpread = 0.01;
constexpr double kMost = 1e6;  // rows, and seconds

}  // namespace

bool StepCost::Note(double rows, double seconds) {
  const auto sound = [](double value) { return value > 0 && value <= kMost; };  // not NaN
  if (!sound(rows) || !sound(seconds)) return false;
  count_ = kDecay * count_ + 1;
  rows_ = kDecay * rows_ + rows;
  seconds_ = kDecay * seconds_ + seconds;
  rows_rows_ = kDecay * rows_rows_ + rows * rows;
  rows_seconds_ = kDecay * rows_seconds_ + rows * seconds;
  return true;
}

// A slope or a fixed cost below 0 is noise: then it is 0, and the other one explains all of the
// cost.
StepCost::Line StepCost::Fit() const {
  if (count_ == 0) return {};
  const double mean_rows = rows_ / count_, mean_seconds = seconds_ / count_;
  const double variance = rows_rows_ / count_ - mean_rows * mean_rows;
  const double covariance = rows_seconds_ / count_ - mean_rows * mean_seconds;
  if (variance < kLeastSpread * mean_rows * mean_rows || covariance <= 0) return {mean_seconds, 0};
  const double slope = std::min(covariance / variance, mean_seconds / mean_rows);
  return {mean_seconds - slope * mean_rows, slope};
}

double StepCost::Seconds(double rows) const {
  const Line line = Fit();
  return line.fixed + line.per_row * rows;
}

double StepCost::AtMeanRows(double rows, double seconds) const {
  const double expected = Seconds(rows);
  return expected > 0 ? seconds * Seconds(rows_ / count_) / expected : seconds;
}

double StepCost::FixedRows() const {
  const Line line = Fit();
  if (line.per_row == 0) return std::numeric_limits<double>::infinity();
  return line.fixed / line.per_row;
}

}  // namespace baton::controller
