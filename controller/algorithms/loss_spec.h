// The losses that workers know, by name, so that a spec is checked before it runs: the engine's
// policy losses (workers/engine/loss.h has the formulas) and the critic's.
#ifndef BATON_CONTROLLER_ALGORITHMS_LOSS_SPEC_H_
#define BATON_CONTROLLER_ALGORITHMS_LOSS_SPEC_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "sdk/base/options.h"

namespace baton::algorithms {

/// What an `update` node may ask for; members are the options of the same name with the worker's
/// own defaults. 0 turns clip_ratio_c, positive_nll_coef, ptx_coef and cliprange_value off; a
/// loss_scale_factor of 0 is the longest response of the mini-batch.
struct LossOptions {
  double clip_ratio_low = 0.2;
  double clip_ratio_high = 0.2;
  double clip_ratio_c = 0;
  std::string loss_agg_mode = "token-mean";
  double loss_scale_factor = 0;
  double entropy_coeff = 0;
  bool use_kl_loss = false;
  double kl_loss_coef = 0.001;
  std::string kl_loss_type = "k3";
  double temperature = 1;
  std::string rollout_is;
  double rollout_is_threshold = 2;
  double positive_nll_coef = 0;
  double ptx_coef = 0;
  double cliprange_value = 0.5;
};

struct LossCheck {
  std::vector<OptionProblem> problems;  ///< All of them; empty: the rest is valid.
  LossOptions options;
  /// That must be there for every trajectory: `advantages`, `rollout_log_prob`, `old_log_prob`,
  /// `ref_log_prob`, `values`, `returns`.
  std::vector<std::string> columns;
};

/// `name`: sft, ppo_clip, gspo, cispo, reinforce (actor), value (critic). Pure.
LossCheck CheckLoss(absl::string_view name, const Options& options);

std::vector<std::string> LossNames();
/// Options that the loss has, sorted. Empty for an unknown one.
std::vector<std::string> LossOptionNames(absl::string_view name);

}  // namespace baton::algorithms

#endif  // BATON_CONTROLLER_ALGORITHMS_LOSS_SPEC_H_
