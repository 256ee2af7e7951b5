#include "workers/rollout/speculation/acceptance.h"

#include <algorithm>
#include <cmath>

#include "sdk/base/mutant.h"

namespace baton::rollout {
namespace {

constexpr double kScoreWeight = 2;  // nodes that the score itself is worth
constexpr double kEnough = 16;      // nodes of a class that say how good it is
constexpr double kEnoughOfAll = 256;
constexpr double kCountFading = 0.9997;  // of the counts, with each pass

}  // namespace

int Acceptance::ClassOf(float score, int match_length) {
  const double halvings = -2 * std::log2(std::clamp(score, 1e-6f, 1.0f));
  const int by_score = std::min(kScores - 1, static_cast<int>(halvings));
  int by_match = 0;
  for (int length = match_length; length > 1 && by_match + 1 < kMatches; length /= 2) ++by_match;
  return by_score * kMatches + by_match;
}

void Acceptance::Note(float score, int match_length, bool accepted) {
  if (Mutant("drafts-believed-blindly")) return;
  Count& count = counts_[static_cast<size_t>(ClassOf(score, match_length))];
  ++count.tried;
  if (accepted) ++count.accepted;
}

double Acceptance::Of(float score, int match_length) const {
  const Count& count = counts_[static_cast<size_t>(ClassOf(score, match_length))];
  const double believed = std::clamp(score, 0.0f, 1.0f);
  return (count.accepted + kScoreWeight * believed) / (count.tried + kScoreWeight);
}

bool Acceptance::Tried() const {
  double tried = 0;
  for (const Count& count : counts_) tried += count.tried;
  return tried >= kEnoughOfAll;
}

double Acceptance::Best() const {
  double best = 0;
  for (const Count& count : counts_) {
    if (count.tried < kEnough) continue;
    best = std::max(best, (count.accepted + kScoreWeight) / (count.tried + kScoreWeight));
  }
  return Tried() ? best : 1;
}

void Acceptance::Fade() {
  for (Count& count : counts_) {
    count.tried *= kCountFading;
    count.accepted *= kCountFading;
  }
}

}  // namespace baton::rollout
