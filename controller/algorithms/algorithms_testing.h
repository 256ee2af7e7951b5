// Random ragged batches, and slow definitions of what the estimators compute.
#ifndef BATON_CONTROLLER_ALGORITHMS_ALGORITHMS_TESTING_H_
#define BATON_CONTROLLER_ALGORITHMS_ALGORITHMS_TESTING_H_

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "controller/algorithms/sample.h"

namespace baton::algorithms::testing {

/// Owns what the samples' spans borrow.
struct Batch {
  std::vector<std::vector<uint8_t>> masks;
  std::vector<std::vector<float>> log_probs, ref_log_probs, values, cost_values, token_rewards;
  std::vector<Sample> samples;

  explicit Batch(size_t n)
      : masks(n),
        log_probs(n),
        ref_log_probs(n),
        values(n),
        cost_values(n),
        token_rewards(n),
        samples(n) {}

  /// Points the samples at the columns.
  void Bind() {
    for (size_t i = 0; i < samples.size(); ++i) {
      Sample& s = samples[i];
      s.mask = masks[i];
      s.log_probs = log_probs[i];
      s.ref_log_probs = ref_log_probs[i];
      s.values = values[i];
      s.cost_values = cost_values[i];
      s.token_rewards = token_rewards[i];
    }
  }
  bool In(size_t i, size_t t) const { return masks[i].empty() || masks[i][t] != 0; }
};

/// n samples in groups of 1 to 4, shuffled. Among them a response of length 1, an empty one, a
/// fully masked one and one without a mask; masked tokens hold garbage.
inline Batch RandomBatch(uint32_t seed, size_t n) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  Batch b(n);
  for (size_t i = 0; i < n; ++i) {
    Sample& s = b.samples[i];
    s.group = rng() % (n / 2 + 1);
    s.length = i == 0 ? 1 : i == 1 ? 0 : 1 + rng() % 9;
    s.reward = static_cast<double>(rng() % 5) / 2 - 1;
    s.cost = normal(rng);
    s.reward_baseline = normal(rng);
    s.flawed = rng() % 3 == 0;
    for (size_t t = 0; t < s.length; ++t) {
      const bool in = i == 0 || i == 3 || (i != 2 && rng() % 4 != 0);
      b.masks[i].push_back(in ? 1 : 0);
      const float bad = rng() % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : 1e30F;
      const auto value = [&](float scale) { return in ? scale * normal(rng) : bad; };
      b.log_probs[i].push_back(value(1));
      b.ref_log_probs[i].push_back(value(1));
      b.values[i].push_back(value(1));
      b.cost_values[i].push_back(value(2));
      b.token_rewards[i].push_back(value(0.3F));
    }
    if (i == 3) b.masks[i].clear();
    if (i % 2 == 1) b.token_rewards[i].clear();
  }
  b.Bind();
  return b;
}

}  // namespace baton::algorithms::testing

#endif  // BATON_CONTROLLER_ALGORITHMS_ALGORITHMS_TESTING_H_
