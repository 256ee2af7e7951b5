#include "controller/core/steps/admission_pace.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace baton::controller {
namespace {

constexpr double kKeepGroup = 0.99;  // half as much after about 70 groups
constexpr double kKeepStep = 0.8;    // half as much after about 3 steps
constexpr double kIdle = 0.05;       // of a step: the trainer had to wait
constexpr double kMarginStep = 0.5;
constexpr double kKeepMargin = 0.98;
// If a step takes longer than both limits, the trainer is held up.
constexpr absl::Duration kHeldUp = absl::Seconds(2);
constexpr double kHeldUpSteps = 3;

}  // namespace

void AdmissionPace::NoteGroup(absl::Duration took) {
  const double seconds = std::max(0.0, absl::ToDoubleSeconds(took));
  groups_ = kKeepGroup * groups_ + 1;
  seconds_ = kKeepGroup * seconds_ + seconds;
  squares_ = kKeepGroup * squares_ + seconds * seconds;
}

void AdmissionPace::NoteBatch(uint64_t more) { early_steps_ = more > 0 ? early_steps_ + 1 : 0; }

void AdmissionPace::NoteStep(absl::Duration busy, absl::Duration idle, absl::Time now) {
  step_began_ = now;
  const bool held_back = std::exchange(held_back_, false);
  if (std::exchange(partial_, false)) return;
  const double work = std::max(0.0, absl::ToDoubleSeconds(busy));
  update_ = measured() ? kKeepStep * update_ + (1 - kKeepStep) * work : work;
  ++steps_;
  const bool waited = idle > kIdle * (busy + idle);
  const double updates = std::ceil(Needed() + margin_);
  // The first two batches began before U was known, so their waits say nothing about the estimate.
  if (held_back && waited && steps_ > 2) {
    margin_ += kMarginStep;
  } else if (updates > 1 && early_steps_ > updates) {
    // In a shorter run of such steps, a wait of the trainer may have let the batches begin
    // together.
    margin_ -= 1;
    early_steps_ = 0;
  } else {
    margin_ *= kKeepMargin;
  }
}

// By G and U alone, in updates.
double AdmissionPace::Needed() const {
  if (groups_ == 0 || !measured()) return 0;
  if (update_ == 0) return static_cast<double>(kUnbounded);
  const double mean = seconds_ / groups_;
  const double deviation = std::sqrt(std::max(0.0, squares_ / groups_ - mean * mean));
  return (mean + 2 * deviation) / update_;
}

uint64_t AdmissionPace::Updates(bool supplied, absl::Time now) const {
  if (!measured()) return supplied ? 1 : 0;
  const absl::Duration limit = std::max(kHeldUp, absl::Seconds(kHeldUpSteps * update_));
  if (now - step_began_ > limit) return kUnbounded;
  const double updates = std::ceil(Needed() + margin_);
  return static_cast<uint64_t>(std::clamp(updates, 1.0, static_cast<double>(kUnbounded)));
}

}  // namespace baton::controller
