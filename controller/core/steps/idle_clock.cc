#include "controller/core/steps/idle_clock.h"

#include <algorithm>

namespace baton::controller {

void IdleClock::Advance(absl::Time now) {
  const absl::Duration passed =
      counted_ == absl::InfinitePast() ? absl::ZeroDuration() : now - counted_;
  counted_ = std::max(counted_, now);
  if (!load_.runs || passed <= absl::ZeroDuration()) return;
  time_ += passed;
  if (load_.trainer_idle) trainer_idle_ += passed;
  rollouts_ += load_.rollouts * passed;
  loading_ += load_.loading * passed;
  resting_ += load_.resting * passed;
}

void IdleClock::BeginStep() {
  time_ = trainer_idle_ = absl::ZeroDuration();
  rollouts_ = loading_ = resting_ = absl::ZeroDuration();
}

std::map<std::string, double> IdleClock::Shares() const {
  std::map<std::string, double> shares;
  if (time_ > absl::ZeroDuration()) {
    shares["idle/trainer"] = absl::FDivDuration(trainer_idle_, time_);
  }
  if (rollouts_ > absl::ZeroDuration()) {
    shares["idle/rollouts"] = absl::FDivDuration(loading_ + resting_, rollouts_);
    shares["idle/rollouts_loading"] = absl::FDivDuration(loading_, rollouts_);
  }
  return shares;
}

}  // namespace baton::controller
