#include "controller/core/steps/admission_pace.h"

#include <algorithm>
#include <cmath>

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

void AdmissionPace::NoteStep(absl::Duration took, double idle, absl::Time now) {
  const double busy = std::max(0.0, absl::ToDoubleSeconds(took) * (1 - idle));
  update_ = update_ == 0 ? busy : kKeepStep * update_ + (1 - kKeepStep) * busy;
  const bool late = held_back_ && idle > kIdle;
  margin_ = late ? margin_ + kMarginStep : kKeepMargin * margin_;
  held_back_ = false;
  step_began_ = now;
}

uint64_t AdmissionPace::Updates(absl::Time now) const {
  if (groups_ == 0 || update_ == 0) return kUnbounded;
  const absl::Duration limit = std::max(kHeldUp, absl::Seconds(kHeldUpSteps * update_));
  if (now - step_began_ > limit) return kUnbounded;
  const double mean = seconds_ / groups_;
  const double deviation = std::sqrt(std::max(0.0, squares_ / groups_ - mean * mean));
  const double updates = std::ceil((mean + 2 * deviation) / update_ + margin_);
  return static_cast<uint64_t>(std::clamp(updates, 1.0, static_cast<double>(kUnbounded)));
}

}  // namespace baton::controller
