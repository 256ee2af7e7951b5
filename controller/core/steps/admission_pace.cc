#include "controller/core/steps/admission_pace.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace baton::controller {
namespace {

constexpr double kKeepGroup = 0.99;  // half as much after about 70 groups
constexpr double kKeepStep = 0.8;    // half as much after about 3 steps
constexpr size_t kNewestSteps = 8;   // whose smallest G counts
// The share of a step that the trainer may wait for its batch. What begins an update earlier would
// save that time, and be an update older; below this share fresher responses teach more.
constexpr double kMayWait = 0.15;
constexpr int kJudgedSteps = 4;  // together
constexpr double kMarginStep = 0.5;
constexpr double kKeepMargin = 0.98;
// If a step takes longer than both limits, the trainer is held up.
constexpr absl::Duration kHeldUp = absl::Seconds(2);
constexpr double kHeldUpSteps = 3;  // of those expected

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
  if (groups_ > 0) newest_.push_back(GroupSeconds());
  if (newest_.size() > kNewestSteps) newest_.pop_front();
  if (std::exchange(partial_, false)) return;
  const double work = std::max(0.0, absl::ToDoubleSeconds(busy));
  update_ = measured() ? kKeepStep * update_ + (1 - kKeepStep) * work : work;
  ++steps_;
  const double updates = std::ceil(Needed() + margin_);
  // Two batches began before U was known, so their waits say nothing about the estimate.
  if (steps_ <= 2) {
    waits_ = {};
  } else if (Waited(busy, idle)) {
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

// True once in kJudgedSteps steps at most: the trainer waited for too much of these, and rollouts
// were held back. A single step says little: the one in which all groups are filtered has no work
// at all.
bool AdmissionPace::Waited(absl::Duration busy, absl::Duration idle) {
  waits_.busy += busy;
  waits_.idle += idle;
  if (++waits_.steps < kJudgedSteps) return false;
  const Waits judged = std::exchange(waits_, {});
  return judged.held_back && judged.idle > kMayWait * (judged.busy + judged.idle);
}

// Of the groups that were measured, the newer ones with more weight: mean and two standard
// deviations.
double AdmissionPace::GroupSeconds() const {
  const double mean = seconds_ / groups_;
  return mean + 2 * std::sqrt(std::max(0.0, squares_ / groups_ - mean * mean));
}

// By G and U alone, in updates.
double AdmissionPace::Needed() const {
  if (groups_ == 0 || !measured()) return 0;
  if (update_ == 0) return static_cast<double>(kUnbounded);
  double group = GroupSeconds();
  for (const double earlier : newest_) group = std::min(group, earlier);
  return group / update_;
}

uint64_t AdmissionPace::Updates(absl::Time now) const {
  if (!measured()) return 0;
  // A step waits for a batch, and then it works.
  const double step = update_ + (groups_ > 0 ? GroupSeconds() : 0);
  if (now - step_began_ > std::max(kHeldUp, absl::Seconds(kHeldUpSteps * step))) return kUnbounded;
  if (groups_ == 0) return 1;
  const double ahead = Needed() + margin_;
  // A batch that begins with the newest weights lets the trainer wait for all of it.
  if (ahead <= kMayWait * (ahead + 1)) return 0;
  return static_cast<uint64_t>(std::min(std::ceil(ahead), static_cast<double>(kUnbounded)));
}

}  // namespace baton::controller
