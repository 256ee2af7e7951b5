#include "workers/engine/loss/loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/support/engine/loss.h"

namespace baton::engine {
namespace {

using ::testing::HasSubstr;

// --- Slow definitions, one token at a time -------------------------------------------------------

double SlowClip(double x, double low, double high) { return std::min(std::max(x, low), high); }

double SlowPpo(double log_prob, double old, double advantage, const LossSpec& spec) {
  const double ratio = std::exp(SlowClip(log_prob - old, -20, 20));
  const double clipped = SlowClip(ratio, 1 - spec.clip_ratio_low, 1 + spec.clip_ratio_high);
  const double objective = std::min(ratio * advantage, clipped * advantage);
  if (spec.clip_ratio_c != 0 && advantage < 0) {
    return -std::max(objective, spec.clip_ratio_c * advantage);
  }
  return -objective;
}

double SlowKl(double log_prob, double ref, const std::string& type) {
  const double d = log_prob - ref;
  if (type == "k1") return d;
  if (type == "k2") return d * d / 2;
  return std::min(std::exp(-d) + d - 1, 10.0);
}

TEST(ScoreTokensTest, LogProbAndEntropyByHand) {
  // Row 0 has odds 1 : 1 : 2; row 1 is uniform.
  const torch::Tensor logits =
      torch::tensor({{0.0, 0.0, std::log(2.0)}, {5.0, 5.0, 5.0}}, torch::kFloat64);
  const TokenScores scores =
      ScoreTokens(logits, torch::tensor({2, 0}, torch::kInt64), 1, EntropyMode::kValue);
  EXPECT_NEAR(Item(scores.log_probs, 0), std::log(0.5), 1e-12);
  EXPECT_NEAR(Item(scores.log_probs, 1), std::log(1.0 / 3), 1e-12);
  EXPECT_NEAR(Item(scores.entropy, 0), 1.5 * std::log(2.0), 1e-12);
  EXPECT_NEAR(Item(scores.entropy, 1), std::log(3.0), 1e-12);
}

TEST(ScoreTokensTest, TemperatureDividesTheLogits) {
  // At T = 1/2 odds are squared: 1 : 9.
  const torch::Tensor logits = torch::tensor({{0.0, std::log(3.0)}}, torch::kFloat64);
  const TokenScores scores =
      ScoreTokens(logits, torch::tensor({1}, torch::kInt64), 0.5, EntropyMode::kNone);
  EXPECT_NEAR(Item(scores.log_probs), std::log(0.9), 1e-12);
  EXPECT_FALSE(scores.entropy.defined());
}

TEST(ScoreTokensTest, EntropyCarriesAGradientOnlyWhenAsked) {
  const torch::Tensor logits = torch::randn({3, 4}, torch::kFloat64).requires_grad_();
  const torch::Tensor targets = torch::zeros({3}, torch::kInt64);
  EXPECT_FALSE(ScoreTokens(logits, targets, 1, EntropyMode::kValue).entropy.requires_grad());
  EXPECT_TRUE(ScoreTokens(logits, targets, 1, EntropyMode::kGradient).entropy.requires_grad());
}

TEST(ScoreTokensTest, HalfPrecisionLogitsAreScoredInFloat32) {
  const torch::Tensor logits = torch::zeros({1, 3}, torch::kBFloat16);
  const TokenScores scores =
      ScoreTokens(logits, torch::zeros({1}, torch::kInt64), 1, EntropyMode::kValue);
  EXPECT_EQ(scores.log_probs.scalar_type(), torch::kFloat32);
  EXPECT_NEAR(Item(scores.log_probs), -std::log(3.0), 1e-6);
}

LossSpec Ppo(double low, double high, double c) {
  LossSpec spec;
  spec.kind = LossSpec::kPpoClip;
  spec.clip_ratio_low = low;
  spec.clip_ratio_high = high;
  spec.clip_ratio_c = c;
  return spec;
}

TEST(PpoClipTest, EveryBranchByHand) {
  // Ratio 2 and 1/2, 4 against advantages of both signs; bounds 0.8 and 1.28, dual clip at 3.
  struct Case {
    double ratio, advantage, loss, clipped, lower;
  };
  const std::vector<Case> cases = {
      {2.0, 1.0, -1.28, 1, 0},  // too likely already: gain capped
      {2.0, -1.0, 2.0, 0, 0},   // too likely and bad: full weight
      {0.5, 1.0, -0.5, 0, 0},   // unlikely and good: full weight
      {0.5, -1.0, 0.8, 1, 0},   // unlikely already and bad: capped
      {4.0, -2.0, 6.0, 0, 1},   // dual clip: 3 * 2 instead of 4 * 2
      {1.1, 1.0, -1.1, 0, 0},   // inside
      {7.0, 0.0, 0.0, 0, 0},    // advantage zero: nothing at all
  };
  std::vector<double> log_probs, old, advantages;
  for (const Case& c : cases) {
    log_probs.push_back(std::log(c.ratio) - 2);
    old.push_back(-2);
    advantages.push_back(c.advantage);
  }
  const PolicyTerms terms =
      PpoClip(Doubles(log_probs), Doubles(old), Doubles(advantages), Ppo(0.2, 0.28, 3));
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_NEAR(Item(terms.loss, i), cases[i].loss, 1e-12);
    EXPECT_EQ(Item(terms.clipped, i), cases[i].clipped);
    EXPECT_EQ(Item(terms.clipped_lower, i), cases[i].lower);
    EXPECT_NEAR(Item(terms.kl, i), -std::log(cases[i].ratio), 1e-12);
  }
}

TEST(PpoClipTest, GradientFollowsTheBranch) {
  // d loss / d log_prob is -A rho where nothing is clipped, and 0 where it is.
  const torch::Tensor log_probs =
      Doubles({std::log(1.1), std::log(2.0), std::log(4.0), std::log(0.5)}).requires_grad_();
  PpoClip(log_probs, Doubles({0, 0, 0, 0}), Doubles({1, 1, -2, 1}), Ppo(0.2, 0.28, 3))
      .loss.sum()
      .backward();
  EXPECT_NEAR(Item(log_probs.grad(), 0), -1.1, 1e-12);
  EXPECT_EQ(Item(log_probs.grad(), 1), 0);
  EXPECT_EQ(Item(log_probs.grad(), 2), 0);
  EXPECT_NEAR(Item(log_probs.grad(), 3), -0.5, 1e-12);
}

TEST(PpoClipTest, EqualsTheDefinitionOnRandomTokens) {
  std::mt19937 rng(5);
  std::normal_distribution<double> normal;
  for (double c : {0.0, 1.5, 3.0}) {
    const LossSpec spec = Ppo(0.2, 0.28, c);
    std::vector<double> log_probs, old, advantages;
    for (int i = 0; i < 500; ++i) {
      log_probs.push_back(-std::fabs(2 * normal(rng)));
      old.push_back(log_probs.back() + normal(rng) * (i % 7 == 0 ? 20 : 0.5));
      advantages.push_back(i % 11 == 0 ? 0 : normal(rng));
    }
    const PolicyTerms terms = PpoClip(Doubles(log_probs), Doubles(old), Doubles(advantages), spec);
    for (int i = 0; i < 500; ++i) {
      const double want = SlowPpo(log_probs[i], old[i], advantages[i], spec);
      EXPECT_NEAR(Item(terms.loss, i), want, 1e-9 * std::max(1.0, std::fabs(want)));
    }
  }
}

TEST(KlPenaltyTest, EqualsTheDefinitionAndIsZeroAtTheReference) {
  std::mt19937 rng(6);
  std::normal_distribution<double> normal;
  for (const std::string type : {"k1", "k2", "k3"}) {
    EXPECT_EQ(Item(KlPenalty(Doubles({-1.25}), Doubles({-1.25}), type)), 0);
    for (int i = 0; i < 100; ++i) {
      const double log_prob = normal(rng), ref = normal(rng);
      EXPECT_NEAR(Item(KlPenalty(Doubles({log_prob}), Doubles({ref}), type)),
                  SlowKl(log_prob, ref, type), 1e-9);
    }
  }
  // By hand: d = log 2, so k3 = 1/2 + log 2 - 1.
  EXPECT_NEAR(Item(KlPenalty(Doubles({0}), Doubles({-std::log(2.0)}), "k3")), std::log(2.0) - 0.5,
              1e-12);
}

// Two names for one thing; straight through, the value is the estimate's.
TEST(KlPenaltyTest, AliasesAndStraightThroughHaveTheSameValues) {
  const std::pair<const char*, const char*> names[] = {
      {"kl", "k1"},  {"mse", "k2"},         {"low_var_kl", "k3"}, {"k1+", "k1"},
      {"kl+", "k1"}, {"low_var_kl+", "k3"}, {"k3+", "k3"}};
  const torch::Tensor log_probs = Doubles({-1, -2, -0.5, -60}), ref = Doubles({-1, -1, -3, -1});
  for (const auto& [name, estimate] : names) {
    EXPECT_TRUE(torch::equal(KlPenalty(log_probs, ref, name), KlPenalty(log_probs, ref, estimate)))
        << name;
  }
  EXPECT_NEAR(Item(KlPenalty(log_probs, ref, "abs"), 1), 1, 1e-12);
  EXPECT_NEAR(Item(KlPenalty(log_probs, ref, "abs"), 2), 2.5, 1e-12);
}

// d/d log_prob, by finite differences of the value, and for + those of k2, which are d itself.
TEST(KlPenaltyTest, GradientsAreTheEstimatesOwnOrK2s) {
  constexpr double kStep = 1e-6;
  for (const std::string type :
       {"k1", "abs", "k2", "k3", "kl", "mse", "low_var_kl", "k1+", "k3+", "kl+", "low_var_kl+"}) {
    const bool straight = type.back() == '+';
    for (const double d : {-1.5, -0.2, 0.3, 2.0}) {
      torch::Tensor x = Doubles({d - 1}).requires_grad_();
      KlPenalty(x, Doubles({-1}), type).sum().backward();
      const auto value = [&](double at) {
        return Item(KlPenalty(Doubles({at}), Doubles({-1}), straight ? "k2" : type));
      };
      const double slope = (value(d - 1 + kStep) - value(d - 1 - kStep)) / (2 * kStep);
      EXPECT_NEAR(Item(x.grad()), slope, 1e-8) << type << " at " << d;
      if (straight) {
        EXPECT_NEAR(Item(x.grad()), d, 1e-12) << type;
      }
    }
  }
}

// On the policy's own samples the expected gradient of k1 is 0, that of k1+ the KL's.
TEST(KlPenaltyTest, InExpectationStraightThroughIsTheGradientOfTheKl) {
  const torch::Tensor ref = torch::log_softmax(Doubles({0.3, -0.7, 1.1}), 0);
  const auto expected = [&](const char* type) {  // the exact sum over what may be sampled
    torch::Tensor logits = Doubles({1.0, 0.2, -0.5}).requires_grad_();
    const torch::Tensor log_probs = torch::log_softmax(logits, 0);
    (log_probs.detach().exp() * KlPenalty(log_probs, ref, type)).sum().backward();
    return logits.grad();
  };
  torch::Tensor logits = Doubles({1.0, 0.2, -0.5}).requires_grad_();
  const torch::Tensor log_probs = torch::log_softmax(logits, 0);
  (log_probs.exp() * (log_probs - ref)).sum().backward();
  EXPECT_TRUE(torch::allclose(expected("k1"), torch::zeros_like(ref), 0, 1e-12));
  for (const char* type : {"k2", "k1+", "k3+"}) {
    EXPECT_TRUE(torch::allclose(expected(type), logits.grad(), 0, 1e-12)) << type;
  }
}

TEST(KlPenaltyTest, FarFromTheReferenceItIsBoundedAndFinite) {
  for (const std::string type : {"k1", "k2", "k3", "abs", "k1+", "k3+"}) {
    for (double log_prob : {-1e30, -1e5, -90.0, 0.0}) {
      for (double ref : {-1e30, -1e5, -90.0, 0.0}) {
        const torch::Tensor x = torch::tensor({static_cast<float>(log_prob)}).requires_grad_();
        const torch::Tensor kl = KlPenalty(x, torch::tensor({static_cast<float>(ref)}), type);
        kl.backward();
        EXPECT_TRUE(std::isfinite(Item(kl))) << type << " " << log_prob << " " << ref;
        EXPECT_TRUE(std::isfinite(Item(x.grad()))) << type << " " << log_prob << " " << ref;
        if (type == "k3" || type == "k3+") {
          EXPECT_LE(Item(kl), 10);
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton::engine
