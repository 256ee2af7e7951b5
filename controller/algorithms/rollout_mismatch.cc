#include "controller/algorithms/rollout_mismatch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace baton::algorithms {
namespace {

constexpr double kMostExponent = 20;

double BoundedExp(double x) { return std::exp(std::clamp(x, -kMostExponent, kMostExponent)); }

/// Sums over the unmasked tokens of one sample.
struct MismatchOfSequence {
  double tokens = 0, recomputed = 0, rollout = 0, d = 0;
};

/// Sums over the batch.
struct Mismatch {
  double tokens = 0, abs = 0, highest_abs = 0, d = 0, k3 = 0, square = 0;
  double sequences = 0, training_ppl = 0, training_log_ppl = 0, rollout_ppl = 0,
         rollout_log_ppl = 0, ratio = 0, diff = 0, abs_diff = 0, product_square = 0;
  double highest = -std::numeric_limits<double>::infinity();
  double lowest = std::numeric_limits<double>::infinity();

  void AddToken(double change) {
    tokens += 1;
    abs += std::abs(change);
    highest_abs = std::max(highest_abs, std::abs(change));
    d += change;
    const double bounded = std::min(change, kMostExponent);
    k3 += std::expm1(bounded) - bounded;
    square += BoundedExp(change) * BoundedExp(change);
  }

  void AddSequence(const MismatchOfSequence& s) {
    if (s.tokens == 0) return;
    const double training = -s.recomputed / s.tokens, generated = -s.rollout / s.tokens;
    sequences += 1;
    training_ppl += BoundedExp(training);
    training_log_ppl += training;
    rollout_ppl += BoundedExp(generated);
    rollout_log_ppl += generated;
    ratio += BoundedExp(training - generated);
    diff += training - generated;
    abs_diff += std::abs(training - generated);
    highest = std::max(highest, training - generated);
    lowest = std::min(lowest, training - generated);
    product_square += BoundedExp(s.d) * BoundedExp(s.d);
  }
};

}  // namespace

void AddRolloutMismatch(absl::Span<const Sample> samples, const std::vector<bool>& kept,
                        std::map<std::string, double>& metrics) {
  Mismatch all;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Sample& s = samples[i];
    if (!kept[i] || s.rollout_log_probs.empty()) continue;
    MismatchOfSequence sequence;
    for (size_t t = 0; t < s.length; ++t) {
      if (!s.mask.empty() && s.mask[t] == 0) continue;
      const double d = double{s.log_probs[t]} - double{s.rollout_log_probs[t]};
      all.AddToken(d);
      sequence.tokens += 1;
      sequence.recomputed += s.log_probs[t];
      sequence.rollout += s.rollout_log_probs[t];
      sequence.d += d;
    }
    all.AddSequence(sequence);
  }
  if (all.tokens == 0) return;
  const auto set = [&](const char* name, double value) {
    metrics[std::string("rollout_corr/") + name] = value;
  };
  const double n = all.tokens;
  const double sequences = all.sequences;
  set("log_prob_abs_diff", all.abs / n);
  set("log_prob_diff_max", all.highest_abs);
  set("kl", -all.d / n);
  set("k3_kl", all.k3 / n);
  set("training_ppl", all.training_ppl / sequences);
  set("training_log_ppl", all.training_log_ppl / sequences);
  set("rollout_ppl", all.rollout_ppl / sequences);
  set("rollout_log_ppl", all.rollout_log_ppl / sequences);
  set("log_ppl_diff", all.diff / sequences);
  set("log_ppl_abs_diff", all.abs_diff / sequences);
  set("log_ppl_diff_max", all.highest);
  set("log_ppl_diff_min", all.lowest);
  set("ppl_ratio", all.ratio / sequences);
  set("chi2_token", all.square / n - 1);
  set("chi2_seq", all.product_square / sequences - 1);
}

}  // namespace baton::algorithms
