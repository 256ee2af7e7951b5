#include "workers/rollout/speculation/draft_budget.h"

#include <algorithm>

namespace baton::rollout {
namespace {

// The expected speed must be better by this factor, for estimates err.
constexpr double kLeastGain = 1.05;
// Tokens that are verified to learn the cost of a row, for each decoding response and at least so
// many.
constexpr double kTryShare = 0.5;
constexpr size_t kTryLeast = 4;
// Rows of some numbers cost less than the line says: by no more than this factor.
constexpr double kHopeless = 0.5;

struct LikelyNode {
  double probability;
  ChosenNode node;
};

// The number of the likeliest nodes that pay.
size_t Paying(absl::Span<const LikelyNode> nodes, int64_t decoding, const PassCost& cost) {
  double tokens = static_cast<double>(decoding);
  const double plain_seconds = cost.Seconds(decoding);
  double best = kLeastGain * tokens / plain_seconds;
  size_t count = 0;
  for (size_t k = 1; k <= nodes.size(); ++k) {
    tokens += nodes[k - 1].probability;
    // By chance a larger pass may have been measured as cheaper. It is none.
    const double seconds = cost.Seconds(decoding + static_cast<int64_t>(k));
    const double rate = tokens / std::max(seconds, plain_seconds);
    if (rate <= best) continue;
    best = rate;
    count = k;
  }
  return count;
}

}  // namespace

double LeastProbability(int64_t decoding, const PassCost& cost) {
  if (!cost.known() || decoding < 1) return 0;
  return cost.per_row() * static_cast<double>(decoding) / cost.Seconds(decoding);
}

bool MayPay(int64_t decoding, int64_t most, double probability, double draft_seconds,
            const PassCost& cost) {
  if (!cost.known() || decoding < 1) return true;
  const auto tokens = static_cast<double>(decoding);
  const double least = kLeastGain * tokens / cost.Seconds(decoding);
  // Every size is not looked at: the gain hardly differs between neighbours.
  for (int64_t nodes = 1; nodes <= most; nodes = nodes < 8 ? nodes + 1 : nodes + nodes / 4) {
    const double seconds = cost.Seconds(decoding + nodes) + draft_seconds;
    if ((tokens + probability * static_cast<double>(nodes)) / seconds > least) return true;
  }
  return false;
}

std::vector<ChosenNode> ChooseNodes(absl::Span<const NodeProbabilities> drafts, int64_t decoding,
                                    size_t most, const PassCost& cost) {
  // A node's descendants are no likelier than the node: all that cannot pay is left out at once.
  const double least = kHopeless * LeastProbability(decoding, cost);
  std::vector<LikelyNode> nodes;
  for (size_t i = 0; i < drafts.size(); ++i) {
    for (size_t k = 0; k < drafts[i].size(); ++k) {
      if (drafts[i][k] >= least) nodes.push_back({drafts[i][k], {i, k}});
    }
  }
  // Among equals, the first draft's nodes come first, in its order: so parents come first, and the
  // order is the same on every machine.
  std::sort(nodes.begin(), nodes.end(), [](const LikelyNode& a, const LikelyNode& b) {
    if (a.probability != b.probability) return a.probability > b.probability;
    return a.node.draft != b.node.draft ? a.node.draft < b.node.draft : a.node.node < b.node.node;
  });
  if (nodes.size() > most) nodes.resize(most);
  size_t count = 0;
  if (cost.known()) {
    count = Paying(nodes, decoding, cost);
  } else {
    const auto share = static_cast<size_t>(kTryShare * static_cast<double>(decoding));
    count = std::min(nodes.size(), std::max(kTryLeast, share));
  }
  std::vector<ChosenNode> chosen;
  chosen.reserve(count);
  for (size_t i = 0; i < count; ++i) chosen.push_back(nodes[i].node);
  return chosen;
}

}  // namespace baton::rollout
