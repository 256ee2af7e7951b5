// Random ragged batches, and slow definitions of what the estimators compute.
#ifndef BATON_TESTS_SUPPORT_CONTROLLER_ALGORITHMS_H_
#define BATON_TESTS_SUPPORT_CONTROLLER_ALGORITHMS_H_

#include <cmath>
#include <cstdint>
#include <limits>
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

/// A small generator of its own: this folder includes no <random>.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2 + 1) {}
  /// SplitMix64.
  uint64_t operator()() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  double Uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }
  /// About normal: twelve uniforms have variance 1.
  double Normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += Uniform();
    return sum;
  }

 private:
  uint64_t state_;
};

/// n samples in groups of 1 to 4, shuffled. Among them a response of length 1, an empty one, a
/// fully masked one and one without a mask; masked tokens hold garbage.
inline Batch RandomBatch(uint32_t seed, size_t n) {
  Random rng(seed);
  Batch b(n);
  for (size_t i = 0; i < n; ++i) {
    Sample& s = b.samples[i];
    s.group = rng() % (n / 2 + 1);
    s.length = i == 0 ? 1 : i == 1 ? 0 : 1 + rng() % 9;
    s.reward = static_cast<double>(rng() % 5) / 2 - 1;
    s.cost = rng.Normal();
    s.reward_baseline = rng.Normal();
    s.flawed = rng() % 3 == 0;
    for (size_t t = 0; t < s.length; ++t) {
      const bool in = i == 0 || i == 3 || (i != 2 && rng() % 4 != 0);
      b.masks[i].push_back(in ? 1 : 0);
      const float bad = rng() % 2 == 0 ? std::numeric_limits<float>::quiet_NaN() : 1e30F;
      const auto value = [&](float scale) {
        return in ? scale * static_cast<float>(rng.Normal()) : bad;
      };
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

#endif  // BATON_TESTS_SUPPORT_CONTROLLER_ALGORITHMS_H_
