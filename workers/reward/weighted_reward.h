// A reward made of others: the sum of each part's reward times its weight.
#ifndef BATON_WORKERS_REWARD_WEIGHTED_REWARD_H_
#define BATON_WORKERS_REWARD_WEIGHTED_REWARD_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "workers/reward/reward_function.h"

namespace baton::reward {

struct WeightedPart {
  std::string name;  ///< Not empty, unlike the others'; e.g. "numeric".
  double weight = 1;
  std::unique_ptr<RewardFunction> function;
};

/// The result has each part's reward under its name and each of its scores as "NAME/SCORE";
/// "accuracy" is that of the first part that has one. An error of any part is an error of the
/// response and names the part. INVALID_ARGUMENT for no parts, equal names or a weight that is
/// not finite.
[[nodiscard]] absl::StatusOr<std::unique_ptr<RewardFunction>> CreateWeightedReward(
    std::vector<WeightedPart> parts);

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_WEIGHTED_REWARD_H_
