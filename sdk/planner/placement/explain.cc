#include "sdk/planner/placement/explain.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace baton::placement {
namespace {

constexpr const char* kStageNames[] = {"generation", "preparation", "training"};
// The bound of the search for a size that fits.
constexpr int kMostDevices = 8192;

// The smallest pool that holds the roles; 0: none up to `most`.
int LeastDevices(const Problem& problem, const std::vector<int>& roles, int most,
                 PoolCosts* costs) {
  for (const int size : PoolSizes(most, problem.setting.device.devices_per_node)) {
    const auto shortage = costs->Shortage(MaskOf(roles), size);
    if (shortage.has_value() && *shortage == 0) return size;
  }
  return 0;
}

// "12.0 GB a device" that the roles lack on the largest pool of at most `devices`; "" when they
// have no layout there.
std::string Lacking(const Problem& problem, const std::vector<int>& roles, int devices,
                    PoolCosts* costs, int* size) {
  const auto sizes = PoolSizes(devices, problem.setting.device.devices_per_node);
  for (auto at = sizes.rbegin(); at != sizes.rend(); ++at) {
    const auto shortage = costs->Shortage(MaskOf(roles), *at);
    if (!shortage.has_value()) continue;
    *size = *at;
    return absl::StrFormat("%.1f GB a device", *shortage / 1e9);
  }
  return "";
}

}  // namespace

std::string ExplainSlower(const Plan& best, const Plan& other) {
  std::vector<std::pair<double, std::string>> parts;
  for (size_t i = 0; i < best.stages.size(); ++i) {
    const double more = other.stages[i] - best.stages[i];
    if (std::abs(more) < 0.005 * best.seconds) continue;
    parts.emplace_back(-more, absl::StrFormat("%s %+.3g s", kStageNames[i], more));
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  if (parts.empty()) return "about as fast";
  return absl::StrJoin(
      parts, ", ", [](std::string* out, const auto& part) { absl::StrAppend(out, part.second); });
}

std::string ExplainMisfit(const Problem& problem, const Partition& partition, PoolCosts* costs) {
  std::vector<int> least;
  for (const auto& pool : partition) {
    least.push_back(LeastDevices(problem, pool, kMostDevices, costs));
    if (least.back() == 0) {
      return absl::StrCat("does not fit: ", PartitionText(problem, {pool}),
                          " fits on no number of devices");
    }
  }
  const int sum = std::accumulate(least.begin(), least.end(), 0);
  std::string out = absl::StrCat("does not fit: needs ", absl::StrJoin(least, " + "),
                                 partition.size() > 1 ? absl::StrCat(" = ", sum) : "", " devices");
  // Give all others their least: what the pool that needs most would lack on the rest.
  const size_t largest =
      static_cast<size_t>(std::max_element(least.begin(), least.end()) - least.begin());
  const int rest = problem.devices - (sum - least[largest]);
  if (rest < 1) return out;
  int size = 0;
  const std::string lacking = Lacking(problem, partition[largest], rest, costs, &size);
  if (lacking.empty()) return out;
  return absl::StrCat(out, "; ", PartitionText(problem, {partition[largest]}), " on ", size,
                      " lacks ", lacking);
}

std::string ExplainNothingFits(const Problem& problem, const Restriction& restriction,
                               const SearchResult& result, PoolCosts* costs) {
  const std::string devices = absl::StrCat(problem.devices, " x ", problem.setting.device.name);
  if (!restriction.pools.empty()) {
    for (const PoolRequest& pool : restriction.pools) {
      if (pool.devices < 1) continue;
      const auto shortage = costs->Shortage(MaskOf(pool.roles), pool.devices);
      const std::string name = PartitionText(problem, {pool.roles});
      if (!shortage.has_value()) {
        return absl::StrCat("pool ", name, ": a role has no layout of ", pool.devices, " devices");
      }
      if (*shortage > 0) {
        return absl::StrFormat("pool %s lacks %.1f GB a device on %d devices", name,
                               *shortage / 1e9, pool.devices);
      }
    }
  }
  int least = 0;
  std::string text;
  for (const Candidate& candidate : result.candidates) {
    int sum = 0;
    for (const auto& pool : candidate.partition) {
      const int size = LeastDevices(problem, pool, kMostDevices, costs);
      sum = size == 0 ? 0 : sum + size;
      if (size == 0) break;
    }
    if (sum == 0 || (least > 0 && sum >= least)) continue;
    least = sum;
    text = PartitionText(problem, candidate.partition);
  }
  if (least == 0)
    return absl::StrCat("nothing fits on any number of ", problem.setting.device.name);
  std::string out = absl::StrCat("nothing fits on ", devices, ": at least ", least,
                                 " devices are needed, with pools ", text);
  const Candidate* nearest = nullptr;
  for (const Candidate& candidate : result.candidates) {
    if (nearest == nullptr && PartitionText(problem, candidate.partition) == text) {
      nearest = &candidate;
    }
  }
  int size = 0;
  if (nearest != nullptr && nearest->partition.size() == 1) {
    const std::string lacking =
        Lacking(problem, nearest->partition[0], problem.devices, costs, &size);
    if (!lacking.empty()) absl::StrAppend(&out, "; on ", size, " they lack ", lacking);
  }
  return absl::StrCat(out, ". Give more devices, larger ones, or smaller models");
}

}  // namespace baton::placement
