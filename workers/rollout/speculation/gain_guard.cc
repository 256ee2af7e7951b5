#include "workers/rollout/speculation/gain_guard.h"

#include <algorithm>
#include <cmath>

#include "sdk/base/mutant.h"

namespace baton::rollout {
namespace {

constexpr double kGainFading = 0.96;
constexpr double kLeastPasses = 12;  // before it judges
constexpr int64_t kLongestRest = 8192;

}  // namespace

void GainGuard::NotePass(double tokens, double plain) {
  if (!std::isfinite(plain) || plain <= 0) return;
  passes_ = kGainFading * passes_ + 1;
  tokens_ = kGainFading * tokens_ + tokens;
  plain_ = kGainFading * plain_ + plain;
  if (passes_ < kLeastPasses) return;
  if (tokens_ >= plain_ || Mutant("loss-is-not-noticed")) {
    next_rest_ = std::max(first_rest_, next_rest_ - 1 - next_rest_ / 64);
    return;
  }
  rest_ = next_rest_;
  next_rest_ = std::min(kLongestRest, 2 * next_rest_);
  passes_ = tokens_ = plain_ = 0;
}

bool GainGuard::Rests() {
  if (rest_ == 0) return false;
  --rest_;
  return true;
}

}  // namespace baton::rollout
