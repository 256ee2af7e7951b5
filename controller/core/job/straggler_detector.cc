#include "controller/core/job/straggler_detector.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace baton::controller {
namespace {

constexpr double kMadScale = 1.4826;  // of a normal distribution: deviation / MAD

double Median(std::vector<double> values) {
  const size_t half = values.size() / 2;
  std::sort(values.begin(), values.end());
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double MedianDeviation(const std::vector<double>& values, double median) {
  std::vector<double> deviations;
  for (const double value : values) deviations.push_back(std::abs(value - median));
  return Median(std::move(deviations));
}

}  // namespace

void StragglerDetector::Add(const std::string& worker, double seconds) {
  // A worker reported this number, and NaN cannot be compared with others.
  if (std::isfinite(seconds) && seconds >= 0) samples_[worker].push_back(seconds);
}

void StragglerDetector::Forget(const std::string& worker) {
  samples_.erase(worker);
  slow_.erase(worker);
}

std::optional<StragglerDetector::Slow> StragglerDetector::EndPhase(absl::Time now) {
  std::map<std::string, double> medians;
  for (auto& [worker, samples] : std::exchange(samples_, {})) {
    if (samples.size() >= options_.min_samples) medians[worker] = Median(std::move(samples));
  }
  if (medians.size() < 2) return std::nullopt;  // a worker without peers is neither slow nor fast
  std::optional<Slow> slowest;
  for (const auto& [worker, median] : medians) {
    // Without the worker itself: with two workers, a median of both would hide the slow one.
    std::vector<double> peers;
    for (const auto& [other, value] : medians) {
      if (other != worker) peers.push_back(value);
    }
    const double usual = Median(peers);
    const double spread = kMadScale * MedianDeviation(peers, usual);
    if (median <= options_.factor * usual || median <= usual + options_.mads * spread) {
      slow_.erase(worker);
      continue;
    }
    Streak& streak = slow_.try_emplace(worker, Streak{now, 0}).first->second;
    const absl::Duration since = now - streak.since;
    if (++streak.phases < options_.min_phases || since < options_.persists) continue;
    if (!slowest.has_value() || median > slowest->seconds) {
      slowest = Slow{worker, median, usual, since};
    }
  }
  // One at a time: without the slowest, the others may no longer look slow.
  if (slowest.has_value()) Forget(slowest->worker);
  return slowest;
}

}  // namespace baton::controller
