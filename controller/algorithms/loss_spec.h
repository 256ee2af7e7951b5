// Requirements of a loss on a job, so that a spec is checked before it runs.
#ifndef BATON_CONTROLLER_ALGORITHMS_LOSS_SPEC_H_
#define BATON_CONTROLLER_ALGORITHMS_LOSS_SPEC_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "sdk/common/schema/loss_options.h"

namespace baton::algorithms {

struct LossCheck {
  std::vector<OptionProblem> problems;  ///< All of them; empty: the rest is valid.
  LossSpec loss;
  /// Columns that every trajectory must have: `advantages`, `rollout_log_prob`, `old_log_prob`,
  /// `ref_log_prob`, `values`, `returns`.
  std::vector<std::string> columns;
};

/// `name`: sft, ppo_clip, gspo, cispo, reinforce (actor), value (critic). Pure.
LossCheck CheckLoss(absl::string_view name, const Options& options);

}  // namespace baton::algorithms

#endif  // BATON_CONTROLLER_ALGORITHMS_LOSS_SPEC_H_
