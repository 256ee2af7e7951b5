// A ragged batch of responses, as the estimators see it.
#ifndef BATON_CONTROLLER_ALGORITHMS_SAMPLE_H_
#define BATON_CONTROLLER_ALGORITHMS_SAMPLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace baton::algorithms {

/// One finished response of `length` tokens. Spans borrow; each is [length] or empty where its
/// column is not needed (EstimatorNeeds). Values at masked tokens need not be finite.
struct Sample {
  uint64_t group = 0;  ///< Samples of one prompt share it, wherever they stand in the batch.
  size_t length = 0;   ///< Response tokens, masked ones included; may be 0.
  double reward = 0;   ///< Of the whole response: rules, models, or both.
  absl::Span<const uint8_t> mask;             ///< 0: not the policy's token. Empty: all ones.
  absl::Span<const float> log_probs;          ///< The actor's, at generation or recomputed …
  absl::Span<const float> rollout_log_probs;  ///< … and then what they were at generation.
  absl::Span<const float> ref_log_probs;      ///< The reference's.
  absl::Span<const float> values;             ///< The critic's, before each token.
  absl::Span<const float> cost_values;        ///< The cost critic's.
  absl::Span<const float>
      token_rewards;  ///< Added to the reward, token by token (process rewards).
  absl::Span<const float> token_advantages;  ///< Of `given`, made by a user's method …
  std::optional<double> advantage;           ///< … or one for the whole response.
  std::optional<double> reward_baseline;  ///< Reward of the greedy response to the prompt (ReMax).
  std::optional<double> cost;             ///< Of the whole response (Safe-RLHF).
  std::optional<double> filter_metric;    ///< What filter_groups compares; absent: `reward`.
  bool flawed = false;                    ///< Right answer, wrong reasoning (FAPO).
};

/// Tokens that take part: unmasked ones.
size_t CountUnmasked(const Sample& sample);

/// The index at which sample i begins in flat per-token arrays: [n + 1], the last is the total.
std::vector<size_t> Offsets(absl::Span<const Sample> samples);

/// Indices of the samples of each group, groups in order of first appearance.
std::vector<std::vector<size_t>> Groups(absl::Span<const Sample> samples);

}  // namespace baton::algorithms

#endif  // BATON_CONTROLLER_ALGORITHMS_SAMPLE_H_
