#include "workers/rollout/speculation/acceptance.h"

#include <algorithm>
#include <cmath>

namespace baton::rollout {
namespace {

constexpr double kShareWeight = 2;  // nodes that the share itself is worth
constexpr double kEnough = 16;      // nodes of a class that say how good it is
constexpr double kEnoughOfAll = 256;
constexpr double kCountFading = 0.9997;  // of the counts, with each pass
constexpr double kLargestUnit = 1e100;
constexpr int64_t kBestPasses = 64;  // after so many the best class is looked for anew

// The number of doublings from 1 to `x`, from 0 to `most`. A draft has many nodes, so this does
// without a logarithm: it reads the exponent.
int Doublings(float x, int most) {
  int exponent = 0;
  std::frexp(std::max(x, 1.0f), &exponent);  // x is in [2^(exponent - 1), 2^exponent).
  return std::clamp(exponent - 1, 0, most);
}

}  // namespace

size_t Acceptance::ClassOf(const NodeEvidence& node) {
  const float share = std::max(node.share, 1e-6f);
  const int by_share = Doublings(1 / (share * share), kShares - 1);
  // Weights fade: what was seen once, lately, counts a little less than 1.
  const int by_seen = Doublings(1.4f * node.seen, kSeen - 1);
  const int by_matched = Doublings(static_cast<float>(node.matched), kMatched - 1);
  return static_cast<size_t>((by_share * kSeen + by_seen) * kMatched + by_matched);
}

void Acceptance::Note(const NodeEvidence& node, bool accepted) {
  Count& count = counts_[ClassOf(node)];
  count.tried += unit_;
  tried_ += unit_;
  if (accepted) count.accepted += unit_;
}

double Acceptance::Of(const NodeEvidence& node) const {
  const Count& count = counts_[ClassOf(node)];
  const double weight = kShareWeight * unit_;
  const double believed = std::clamp(static_cast<double>(node.share), 0.0, 1.0);
  return (count.accepted + weight * believed) / (count.tried + weight);
}

bool Acceptance::Tried() const { return tried_ >= kEnoughOfAll * unit_; }

double Acceptance::Best() const { return Tried() ? best_ : 1; }

void Acceptance::FindBest() {
  double best = -1;
  const double weight = kShareWeight * unit_;
  for (const Count& count : counts_) {
    if (count.tried < kEnough * unit_) continue;
    best = std::max(best, (count.accepted + weight) / (count.tried + weight));
  }
  best_ = best < 0 ? 1 : best;  // no class was tried often
}

void Acceptance::Fade() {
  unit_ /= kCountFading;
  if (unit_ > kLargestUnit) {
    for (Count& count : counts_) count.tried /= unit_, count.accepted /= unit_;
    tried_ /= unit_;
    unit_ = 1;
  }
  if (++passes_ % kBestPasses == 0) FindBest();
}

void EvidenceOf(const Draft& draft, std::vector<NodeEvidence>* evidence) {
  evidence->resize(draft.scores.size());
  for (size_t i = 0; i < evidence->size(); ++i) {
    const int32_t parent = draft.tree.parents[i];
    NodeEvidence& node = (*evidence)[i];
    node = {draft.scores[i], draft.seen[i], draft.match_length};
    if (parent < 0) continue;
    node.share /= draft.scores[static_cast<size_t>(parent)];
    node.matched = (*evidence)[static_cast<size_t>(parent)].matched + 1;
  }
}

}  // namespace baton::rollout
