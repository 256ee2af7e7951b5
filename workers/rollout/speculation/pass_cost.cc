#include "workers/rollout/speculation/pass_cost.h"

#include <algorithm>
#include <cmath>

namespace baton::rollout {
namespace {

constexpr double kPassFading = 0.99;  // of the weight of a pass, with each later one
constexpr double kLeastWeight = 6;    // of all passes together
constexpr double kLeastSpread = 0.1;  // standard deviation of rows over their mean
constexpr double kRatioFading = 0.98;
constexpr double kLineWeight = 4;  // passes that the line is worth
constexpr double kOutlier = 2;     // times what was expected: the process was not running

}  // namespace

void PassCost::Note(int64_t rows, double seconds) {
  if (rows < 1 || !std::isfinite(seconds) || seconds <= 0) return;
  const auto x = static_cast<double>(rows);
  double y = seconds;
  if (known()) {
    const double line = fixed() + per_row() * x;
    y = std::min(y, kOutlier * line);
    Ratio& ratio = ratios_[SizeOf(rows)];
    ratio.count = kRatioFading * ratio.count + 1;
    ratio.sum = kRatioFading * ratio.sum + y / line;
  }
  weight_ = kPassFading * weight_ + 1;
  x_ = kPassFading * x_ + x;
  y_ = kPassFading * y_ + y;
  xx_ = kPassFading * xx_ + x * x;
  xy_ = kPassFading * xy_ + x * y;
  Fit();
}

bool PassCost::RowsDiffer() const {
  if (weight_ < kLeastWeight) return false;
  const double mean = x_ / weight_;
  const double variance = xx_ / weight_ - mean * mean;
  return variance > kLeastSpread * kLeastSpread * mean * mean;
}

void PassCost::Fit() {
  if (RowsDiffer()) {
    const double slope = (weight_ * xy_ - x_ * y_) / (weight_ * xx_ - x_ * x_);
    // By chance more rows may seem cheaper, or the fixed part negative.
    per_row_ = std::clamp(slope, 0.0, y_ / x_);
    fixed_ = std::max(0.0, (y_ - per_row_ * x_) / weight_);
    level_ = 1;
  } else if (known()) {
    level_ = y_ / (weight_ * fixed_ + x_ * per_row_);
  }
}

size_t PassCost::SizeOf(int64_t rows) {
  if (rows <= 64) return static_cast<size_t>(rows);
  const double eighths = 8 * std::log2(static_cast<double>(rows) / 64);
  return std::min(kSizes - 1, 65 + static_cast<size_t>(eighths));
}

double PassCost::Seconds(int64_t rows) const {
  const Ratio& ratio = ratios_[SizeOf(rows)];
  const double line = fixed() + per_row() * static_cast<double>(rows);
  return line * (ratio.sum + kLineWeight) / (ratio.count + kLineWeight);
}

}  // namespace baton::rollout
