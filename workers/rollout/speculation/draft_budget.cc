#include "workers/rollout/speculation/draft_budget.h"

#include <algorithm>
#include <utility>

#include "sdk/base/mutant.h"

namespace baton::rollout {
namespace {

// What is expected must be better by this factor, for estimates err.
constexpr double kLeastGain = 1.05;
// Tokens that are verified to learn the cost of a row, for each decoding response and at least so
// many.
constexpr double kTryShare = 0.5;
constexpr size_t kTryLeast = 4;

// How many of the likeliest nodes pay.
size_t Paying(absl::Span<const std::pair<double, size_t>> nodes, int64_t decoding,
              const PassCost& cost) {
  double tokens = static_cast<double>(decoding);
  const double plain_seconds = cost.Seconds(decoding);
  double best = kLeastGain * tokens / plain_seconds;
  size_t count = 0;
  for (size_t k = 1; k <= nodes.size(); ++k) {
    tokens += nodes[k - 1].first;
    // By chance a larger pass may have been measured as cheaper. It is none.
    const double seconds = cost.Seconds(decoding + static_cast<int64_t>(k));
    const double rate =
        tokens / (Mutant("larger-passes-cheaper") ? seconds : std::max(seconds, plain_seconds));
    if (rate <= best && !Mutant("drafts-at-any-price")) continue;
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
  if (!cost.known() || decoding < 1 || Mutant("drafts-that-cannot-pay")) return true;
  const auto tokens = static_cast<double>(decoding);
  const double least = kLeastGain * tokens / cost.Seconds(decoding);
  // Every size is not looked at: the gain hardly differs between neighbours.
  for (int64_t nodes = 1; nodes <= most; nodes = nodes < 8 ? nodes + 1 : nodes + nodes / 4) {
    const double seconds = cost.Seconds(decoding + nodes) + draft_seconds;
    if ((tokens + probability * static_cast<double>(nodes)) / seconds > least) return true;
  }
  return false;
}

std::vector<size_t> ChooseBudgets(absl::Span<const NodeProbabilities> drafts, int64_t decoding,
                                  size_t most, const PassCost& cost) {
  std::vector<size_t> budgets(drafts.size(), 0);
  std::vector<std::pair<double, size_t>> nodes;  // probability, draft
  for (size_t i = 0; i < drafts.size(); ++i) {
    for (const double probability : drafts[i]) nodes.emplace_back(probability, i);
  }
  // Of equals, those of the first draft: the order is that of the queries on every machine.
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (nodes.size() > most) nodes.resize(most);
  size_t count = 0;
  if (cost.known()) {
    count = Paying(nodes, decoding, cost);
  } else {
    const auto share = static_cast<size_t>(kTryShare * static_cast<double>(decoding));
    count = std::min(nodes.size(), std::max(kTryLeast, share));
  }
  for (size_t i = 0; i < count; ++i) ++budgets[nodes[i].second];
  return budgets;
}

}  // namespace baton::rollout
