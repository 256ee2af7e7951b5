#include "sdk/common/parallel/balance.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <queue>
#include <utility>

namespace baton {
namespace {

constexpr int64_t kNone = -1;

/// A part as a list of items, linked through Merger::next_.
struct Part {
  double cost = 0;
  int64_t first = kNone, last = kNone;
};

/// A division of some of the items, its parts by cost, largest first.
struct Division {
  std::vector<Part> parts;
  int64_t made = 0;  ///< Older ones come first among equals.

  double spread() const { return parts.front().cost - parts.back().cost; }
};

struct MergedLater {
  const std::vector<Division>* divisions;
  bool operator()(size_t a, size_t b) const {
    const Division &x = (*divisions)[a], &y = (*divisions)[b];
    if (x.spread() != y.spread()) return x.spread() < y.spread();
    return x.made > y.made;
  }
};

}  // namespace

std::vector<std::vector<int64_t>> BalanceByCost(absl::Span<const double> costs, int parts) {
  const size_t count = static_cast<size_t>(std::max(parts, 1));
  std::vector<std::vector<int64_t>> result(count);
  if (costs.empty()) return result;
  std::vector<int64_t> next(costs.size(), kNone);
  std::vector<Division> divisions(costs.size());
  std::priority_queue<size_t, std::vector<size_t>, MergedLater> queue(MergedLater{&divisions});
  for (size_t i = 0; i < costs.size(); ++i) {
    const int64_t item = static_cast<int64_t>(i);
    divisions[i].parts.resize(count);
    divisions[i].parts[0] = {costs[i], item, item};
    divisions[i].made = item;
    queue.push(i);
  }
  int64_t made = static_cast<int64_t>(costs.size());
  while (queue.size() > 1) {
    const size_t into = queue.top();
    queue.pop();
    const size_t from = queue.top();
    queue.pop();
    Division& kept = divisions[into];
    for (size_t p = 0; p < count; ++p) {
      Part& large = kept.parts[p];
      const Part& small = divisions[from].parts[count - 1 - p];
      if (small.first == kNone) continue;
      if (large.first == kNone) {
        large = small;
        continue;
      }
      large.cost += small.cost;
      next[large.last] = small.first;
      large.last = small.last;
    }
    std::vector<Part>().swap(divisions[from].parts);
    std::stable_sort(kept.parts.begin(), kept.parts.end(),
                     [](const Part& a, const Part& b) { return a.cost > b.cost; });
    kept.made = made++;
    queue.push(into);
  }
  const Division& whole = divisions[queue.top()];
  for (size_t p = 0; p < count; ++p) {
    for (int64_t item = whole.parts[p].first; item != kNone; item = next[item]) {
      result[p].push_back(item);
    }
    std::sort(result[p].begin(), result[p].end());
  }
  return result;
}

std::vector<double> PartCosts(absl::Span<const double> costs,
                              absl::Span<const std::vector<int64_t>> parts) {
  std::vector<double> sums;
  for (const std::vector<int64_t>& part : parts) {
    double sum = 0;
    for (int64_t item : part) sum += costs[item];
    sums.push_back(sum);
  }
  return sums;
}

double Imbalance(absl::Span<const double> part_costs) {
  const double total = std::accumulate(part_costs.begin(), part_costs.end(), 0.0);
  if (total <= 0) return 1;
  const double largest = *std::max_element(part_costs.begin(), part_costs.end());
  return largest * static_cast<double>(part_costs.size()) / total;
}

}  // namespace baton
