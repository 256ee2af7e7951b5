#include "workers/rollout/speculation/gain_guard.h"

#include <algorithm>
#include <cmath>

namespace baton::rollout {
namespace {

constexpr double kGainFading = 0.998;  // a loss of 2% shows in hundreds of passes
constexpr double kLeastPasses = 12;    // before it judges
constexpr double kLeastLoss = 0.005;   // of the plain tokens; less is not worth a rest
constexpr double kSure = 1.5;          // standard deviations that a loss or gain has
constexpr int64_t kLongestRest = 16384;
constexpr int64_t kLongTrial = 4;  // trials; where a gain is seen that may be chance

}  // namespace

double FollowingOf(int64_t made, int64_t followed, double seconds) {
  if (followed <= made) return seconds;
  return seconds * static_cast<double>(made) / static_cast<double>(followed);
}

void GainGuard::NotePass(double tokens, double plain) {
  if (!std::isfinite(plain) || plain <= 0) return;
  const double loss = plain - tokens;
  passes_ = kGainFading * passes_ + 1;
  loss_ = kGainFading * loss_ + loss;
  plain_ = kGainFading * plain_ + plain;
  variance_ = kGainFading * kGainFading * variance_ + loss * loss;
  ++tried_;
  if (passes_ < kLeastPasses) return;
  if (TrialFailed()) return BackOff();
  if (loss_ <= 0) {
    const bool chance = trial_ > 0 && !Pays();
    if (!chance) {
      next_back_off_ = std::max(first_back_off_, next_back_off_ - 1 - next_back_off_ / 64);
    }
    return;
  }
  if (loss_ < kSure * std::sqrt(variance_)) return;
  if (loss_ < kLeastLoss * plain_) return;
  BackOff();
}

// A small gain takes longer to be told from chance than a loss that costs as much.
bool GainGuard::TrialFailed() const {
  if (trial_ == 0 || tried_ < trial_) return false;
  if (tried_ < kLongTrial * trial_) return loss_ >= 0;
  return !Pays();
}

void GainGuard::BackOff() {
  back_off_ = next_back_off_;
  next_back_off_ = std::min(kLongestRest, 2 * next_back_off_);
  passes_ = plain_ = loss_ = variance_ = 0;
  tried_ = 0;
}

bool GainGuard::BacksOff() {
  if (back_off_ == 0) return false;
  --back_off_;
  return true;
}

bool GainGuard::Pays() const {
  return passes_ >= kLeastPasses && -loss_ >= kSure * std::sqrt(variance_);
}

}  // namespace baton::rollout
