// Advantage estimators: pure functions on rewards.
#ifndef BATON_CONTROLLER_ALGORITHMS_ADVANTAGE_H_
#define BATON_CONTROLLER_ALGORITHMS_ADVANTAGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace baton::algorithms {

/// One finished response.
struct RewardedSample {
  uint64_t group = 0;  ///< Samples of one prompt share it; they stand next to each other.
  double reward = 0;
};

struct GroupAdvantageOptions {
  bool norm_adv_by_std_in_grpo = true;  ///< Divide by the group's standard deviation.
  bool filter_groups = false;           ///< Drop groups whose rewards are all equal (DAPO).
  double epsilon = 1e-6;                ///< Added to the standard deviation.
};

struct Advantages {
  std::vector<double> values;             ///< One per sample, for all of its response tokens.
  std::vector<bool> kept;                 ///< False: its group was dropped.
  std::map<std::string, double> metrics;  ///< critic/advantages/{mean,min,max}, train/…
};

/// GRPO (Shao et al. 2024, arXiv 2402.03300, §4.1.2): A = (R − mean) / (std + ε) over the
/// group, with the sample standard deviation (n − 1). A group of one has advantage R, for there
/// is nothing to compare it with. Dr.GRPO (arXiv 2503.20783) leaves the division out.
Advantages GroupAdvantages(absl::Span<const RewardedSample> samples,
                           const GroupAdvantageOptions& options);

}  // namespace baton::algorithms

#endif  // BATON_CONTROLLER_ALGORITHMS_ADVANTAGE_H_
