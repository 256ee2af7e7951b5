// gspo, cispo and reinforce against scalar definitions, and their gradients against formulas.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/engine/loss.h"
#include "workers/engine/loss/loss.h"

namespace baton::engine {
namespace {

double Clip(double x, double low, double high) { return std::min(std::max(x, low), high); }

LossSpec Clipping(double low, double high) {
  LossSpec spec;
  spec.clip_ratio_low = low;
  spec.clip_ratio_high = high;
  return spec;
}

/// Rows of a few responses of lengths 1 to 6, one after the other.
struct Rows {
  std::vector<double> log_probs, old, advantages;
  std::vector<int64_t> sequences;
};

Rows RandomRows(uint32_t seed, int64_t responses) {
  std::mt19937 rng(seed);
  std::normal_distribution<double> normal;
  Rows rows;
  for (int64_t i = 0; i < responses; ++i) {
    const double advantage = i % 5 == 4 ? 0 : normal(rng);
    for (uint32_t t = i == 0 ? 1 : 1 + rng() % 6; t > 0; --t) {
      rows.log_probs.push_back(-std::fabs(2 * normal(rng)));
      rows.old.push_back(rows.log_probs.back() + normal(rng) * (i % 7 == 6 ? 30 : 0.4));
      rows.advantages.push_back(advantage);
      rows.sequences.push_back(i);
    }
  }
  return rows;
}

torch::Tensor Ids(const Rows& rows) {
  return torch::tensor(at::ArrayRef<int64_t>(rows.sequences), torch::kInt64);
}

/// Mean log-ratio of the response that row m belongs to.
double SlowSequenceLogRatio(const Rows& rows, size_t m) {
  double sum = 0, count = 0;
  for (size_t k = 0; k < rows.old.size(); ++k) {
    if (rows.sequences[k] != rows.sequences[m]) continue;
    sum += rows.log_probs[k] - rows.old[k];
    count += 1;
  }
  return sum / count;
}

TEST(SequenceMeansTest, ByHand) {
  const torch::Tensor ids = torch::tensor({2, 0, 2, 2}, torch::kInt64);
  const torch::Tensor means = SequenceMeans(Doubles({1, 5, 2, 6}).requires_grad_(), ids);
  EXPECT_TRUE(torch::equal(means, Doubles({3, 5, 3, 3})));
  EXPECT_FALSE(means.requires_grad());
  EXPECT_EQ(SequenceMeans(Doubles({}), torch::empty({0}, torch::kInt64)).numel(), 0);
}

TEST(GspoTest, ByHand) {
  // Log-ratios 0.3 and 0.1 of one response of advantage 1: s = exp(0.2), bounds 0.9 and 1.1.
  const torch::Tensor log_probs = Doubles({-0.7, -0.9}).requires_grad_();
  const torch::Tensor old = Doubles({-1, -1});
  const torch::Tensor ids = torch::zeros({2}, torch::kInt64);
  const torch::Tensor means = SequenceMeans(log_probs - old, ids);
  const PolicyTerms clipped = Gspo(log_probs, old, means, Doubles({1, 1}), Clipping(0.1, 0.1));
  EXPECT_NEAR(Item(clipped.loss, 0), -1.1, 1e-12);
  EXPECT_NEAR(Item(clipped.loss, 1), -1.1, 1e-12) << "though its own ratio is inside";
  EXPECT_EQ(Item(clipped.clipped, 1), 1);
  EXPECT_NEAR(Item(clipped.kl, 0), -0.3, 1e-12);
  const PolicyTerms free = Gspo(log_probs, old, means, Doubles({1, 1}), Clipping(0.5, 0.5));
  free.loss.sum().backward();
  EXPECT_NEAR(Item(free.loss, 0), -std::exp(0.2), 1e-12);
  EXPECT_NEAR(Item(log_probs.grad(), 1), -std::exp(0.2), 1e-12) << "-A s, of each token";
}

TEST(GspoTest, EqualsTheDefinitionAndItsGradientOnRandomRows) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Rows rows = RandomRows(seed, 12);
    const LossSpec spec = Clipping(0.2, 0.28);
    const torch::Tensor log_probs = Doubles(rows.log_probs).requires_grad_();
    const torch::Tensor means = SequenceMeans(log_probs - Doubles(rows.old), Ids(rows));
    const PolicyTerms terms =
        Gspo(log_probs, Doubles(rows.old), means, Doubles(rows.advantages), spec);
    terms.loss.sum().backward();
    for (size_t m = 0; m < rows.old.size(); ++m) {
      const double a = rows.advantages[m];
      const double log_s = SlowSequenceLogRatio(rows, m), s = std::exp(std::min(log_s, 10.0));
      const double plain = -a * s, bounded = -a * Clip(s, 0.8, 1.28);
      const double want = std::max(plain, bounded);
      EXPECT_NEAR(Item(terms.loss, m), want, 1e-9 * std::max(1.0, std::fabs(want)));
      EXPECT_EQ(Item(terms.clipped, m), bounded > plain ? 1 : 0);
      // If nothing is clipped, the derivative of s by its own token's log-prob is s.
      const double slope = bounded > plain || log_s > 10 ? 0 : -a * s;
      EXPECT_NEAR(Item(log_probs.grad(), m), slope, 1e-9 * std::max(1.0, std::fabs(slope)));
    }
  }
}

TEST(CispoTest, EqualsTheDefinitionAndItsGradientOnRandomRows) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Rows rows = RandomRows(seed, 12);
    const torch::Tensor log_probs = Doubles(rows.log_probs).requires_grad_();
    const PolicyTerms terms =
        Cispo(log_probs, Doubles(rows.old), Doubles(rows.advantages), Clipping(1, 0.28));
    terms.loss.sum().backward();
    for (size_t m = 0; m < rows.old.size(); ++m) {
      const double ratio = std::exp(Clip(rows.log_probs[m] - rows.old[m], -20, 20));
      const double weight = Clip(ratio, 0, 1.28);
      EXPECT_NEAR(Item(terms.loss, m), -weight * rows.advantages[m] * rows.log_probs[m], 1e-9);
      EXPECT_EQ(Item(terms.clipped, m), weight != ratio ? 1 : 0);
      EXPECT_NEAR(Item(log_probs.grad(), m), -weight * rows.advantages[m], 1e-12)
          << "also where it is clipped: no token loses its gradient";
    }
  }
}

TEST(ReinforceTest, EqualsTheDefinition) {
  const torch::Tensor log_probs = Doubles({-2, -0.5, -1}).requires_grad_();
  const PolicyTerms terms = Reinforce(log_probs, Doubles({-1, -1, -1}), Doubles({3, -2, 0}));
  terms.loss.sum().backward();
  EXPECT_TRUE(torch::equal(terms.loss, Doubles({6, -1, 0})));
  EXPECT_TRUE(torch::equal(log_probs.grad(), Doubles({-3, 2, 0})));
  EXPECT_TRUE(torch::equal(terms.kl, Doubles({1, -0.5, 0})));
  EXPECT_TRUE(torch::equal(Reinforce(log_probs, {}, Doubles({3, -2, 0})).kl, Doubles({0, 0, 0})));
}

TEST(PolicyLossTest, NothingOverflowsInFloat32) {
  for (float log_prob : {-1e5F, -100.0F, 0.0F}) {
    for (float old : {-1e5F, -100.0F, 0.0F}) {
      for (float advantage : {-1.0F, 0.0F, 1.0F}) {
        const torch::Tensor x = torch::tensor({log_prob}).requires_grad_();
        const torch::Tensor o = torch::tensor({old}), a = torch::tensor({advantage});
        const torch::Tensor means = SequenceMeans(x - o, torch::zeros({1}, torch::kInt64));
        for (const PolicyTerms& terms :
             {PpoClip(x, o, a, Clipping(0.2, 0.2)), Gspo(x, o, means, a, Clipping(0.2, 0.2)),
              Cispo(x, o, a, Clipping(0.2, 0.2)), Reinforce(x, o, a)}) {
          terms.loss.sum().backward();
          EXPECT_TRUE(std::isfinite(Item(terms.loss))) << log_prob << " " << old;
          EXPECT_TRUE(std::isfinite(Item(x.grad()))) << log_prob << " " << old;
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton::engine
