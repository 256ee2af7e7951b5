#include "controller/core/steps/admission_pace.h"

#include <algorithm>
#include <utility>

namespace baton::controller {
namespace {

constexpr double kKeepStep = 0.8;  // half as much after about 3 steps
constexpr int kJudgedSteps = 4;    // together: in one step, all groups may have been filtered
// The share of their time that the trainer may wait. Below it, fresher responses teach more than a
// trainer that never waits.
constexpr double kMayWait = 0.15;
constexpr double kWorthwhile = 0.1;  // the share of a step that an update of staleness must save
constexpr int kFirstPaceRest = 8, kLongestPaceRest = 64;  // judgements
// If a step takes longer than both limits, the trainer is held up.
constexpr absl::Duration kHeldUp = absl::Seconds(2);
constexpr double kHeldUpSteps = 3;  // of those expected

}  // namespace

AdmissionPace::AdmissionPace() : up_{0, kFirstPaceRest}, down_{kFirstPaceRest, kFirstPaceRest} {}

void AdmissionPace::NoteStep(absl::Duration busy, absl::Duration idle, absl::Time now) {
  step_began_ = now;
  if (std::exchange(partial_, false)) {
    window_ = {};
    return;
  }
  const double seconds = absl::ToDoubleSeconds(busy + idle);
  step_ = measured_ ? kKeepStep * step_ + (1 - kKeepStep) * seconds : seconds;
  measured_ = true;
  if (unjudged_ > 0) {
    --unjudged_;
    window_ = {};
    return;
  }
  window_.busy += absl::ToDoubleSeconds(busy);
  window_.idle += absl::ToDoubleSeconds(idle);
  if (++window_.steps == kJudgedSteps) Judge(std::exchange(window_, {}));
}

void AdmissionPace::Judge(const Window& window) {
  judged_ = true;
  if (trial_.by != 0) return JudgeTrial(window);
  up_.left = std::max(0, up_.left - 1);
  down_.left = std::max(0, down_.left - 1);
  const bool waited = window.held_back && window.idle > kMayWait * window.seconds();
  if (waited && up_.left == 0) {
    Try(1, window);
  } else if (updates_ > 0 && down_.left == 0) {
    Try(-1, window);
  }
}

// Of two windows, the one with more updates ahead has to be shorter by kWorthwhile to be worth it.
bool AdmissionPace::Trial::Pays(double others) const {
  return by > 0 ? tried <= (1 - kWorthwhile) * others : others > (1 - kWorthwhile) * tried;
}

void AdmissionPace::JudgeTrial(const Window& window) {
  if (trial_.went_back) return EndTrial(trial_.Pays((trial_.before + window.seconds()) / 2));
  trial_.tried = window.seconds();
  // What makes responses fresher needs no second look, nor does what does not seem to pay.
  const bool pays = trial_.Pays(trial_.before);
  if (pays == (trial_.by < 0)) return EndTrial(pays);
  trial_.went_back = true;
  Change(-trial_.by);
}

void AdmissionPace::EndTrial(bool pays) {
  const Trial trial = std::exchange(trial_, {});
  if (pays) {
    up_ = {0, kFirstPaceRest};
    down_ = {kFirstPaceRest, kFirstPaceRest};
  } else {
    Rest& rest = trial.by > 0 ? up_ : down_;
    rest = {rest.next, std::min(2 * rest.next, kLongestPaceRest)};
  }
  if (pays == trial.went_back) Change(pays ? trial.by : -trial.by);
}

void AdmissionPace::Try(int by, const Window& window) {
  trial_ = {by, window.seconds()};
  Change(by);
}

void AdmissionPace::Change(int by) {
  updates_ += by;
  unjudged_ = static_cast<int>(updates_) + 1;
}

uint64_t AdmissionPace::Updates(absl::Time now) const {
  if (!measured_) return 0;
  const bool held_up = now - step_began_ > std::max(kHeldUp, absl::Seconds(kHeldUpSteps * step_));
  return held_up ? kUnbounded : updates_;
}

}  // namespace baton::controller
