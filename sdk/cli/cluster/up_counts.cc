#include "sdk/cli/cluster/up_counts.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "sdk/common/contracts/up_workers.h"

namespace baton::cli {

UpCounts DefaultUpCounts(int cores) {
  return {{"trainers", std::clamp(cores / 4, 1, 8)},
          {"rollouts", std::clamp(cores / 2, 2, 16)},
          {"rewards", std::clamp(cores / 4, 1, 8)},
          {"scorers", std::clamp(cores / 4, 2, 8)},
          {"workers", 0}};
}

int CoresWithin(absl::string_view cpu_max, int cores) {
  const std::vector<absl::string_view> parts =
      absl::StrSplit(cpu_max, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  int64_t quota = 0, period = 0;  // microseconds
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &quota) ||
      !absl::SimpleAtoi(parts[1], &period) || quota <= 0 || period <= 0) {
    return cores;  // "max 100000": no quota
  }
  return static_cast<int>(std::clamp<int64_t>((quota + period - 1) / period, 1, cores));
}

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const bool known = ::sched_getaffinity(0, sizeof(set), &set) == 0;
  const int cores = known ? std::max(1, CPU_COUNT(&set)) : 1;
  std::ifstream in("/sys/fs/cgroup/cpu.max");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  return CoresWithin(text, cores);
}

std::string UpCountsFlag(const UpCounts& counts) {
  return absl::StrJoin(counts, ",", absl::PairFormatter("="));
}

std::string UpCountsText(const UpCounts& counts) {
  std::vector<std::string> parts;
  for (const UpWorkers& kind : kUpWorkers) {
    const auto count = counts.find(std::string(kind.option));
    if (count == counts.end() || count->second == 0) continue;
    const std::string one(
        kind.option.substr(0, kind.option.size() - 1));  // "trainers" -> "trainer"
    parts.push_back(absl::StrCat(count->second, " ", one, count->second == 1 ? "" : "s"));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace baton::cli
