#include "controller/algorithms/reward_shaping.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/algorithms.h"

namespace baton::algorithms {
namespace {

using testing::Batch;
using ::testing::ElementsAre;
using testing::RandomBatch;

TEST(RewardShapingTest, OverlongPenaltyByHand) {
  // DAPO's numbers: max 20480, buffer 4096, so the penalty begins at 16384.
  EXPECT_EQ(OverlongPenalty(16384, 20480, 4096, 1), 0);
  EXPECT_EQ(OverlongPenalty(100, 20480, 4096, 1), 0);
  EXPECT_EQ(OverlongPenalty(18432, 20480, 4096, 1), -0.5);
  EXPECT_EQ(OverlongPenalty(20480, 20480, 4096, 1), -1);
  EXPECT_EQ(OverlongPenalty(20480, 20480, 4096, 3), -3);
  EXPECT_EQ(OverlongPenalty(20480, 20480, 0, 1), 0) << "off";
}

TEST(RewardShapingTest, OnlyARightAnswerCanBeAFlawedPositive) {
  EXPECT_EQ(FlawedPositivePenalty(1, true, 1), -1);
  EXPECT_EQ(FlawedPositivePenalty(1, false, 1), 0);
  EXPECT_EQ(FlawedPositivePenalty(-1, true, 1), 0);
}

TEST(RewardShapingTest, KlEstimatesByHand) {
  const double d = std::log(2.0);
  EXPECT_DOUBLE_EQ(KlEstimate(d, KlType::kK1), d);
  EXPECT_DOUBLE_EQ(KlEstimate(-3, KlType::kAbs), 3);
  EXPECT_DOUBLE_EQ(KlEstimate(-3, KlType::kK2), 4.5);
  EXPECT_DOUBLE_EQ(KlEstimate(d, KlType::kK3), 0.5 + d - 1);
  EXPECT_EQ(KlEstimate(0, KlType::kK3), 0);
  EXPECT_EQ(KlEstimate(-1000, KlType::kK3), 10) << "bounded, not infinite";
  EXPECT_EQ(KlEstimate(1e30, KlType::kK3), 10) << "20 + exp(-20) - 1, at most 10";
}

TEST(RewardShapingTest, TheKlCoefficientFollowsItsTarget) {
  // Twice the target: the error 1 is cut to 0.2; 0.1 * (1 + 0.2 * 256 / 1024).
  EXPECT_DOUBLE_EQ(AdaptKlCoef(0.1, 12, 256, 6, 1024, 1e-4), 0.1 * 1.05);
  EXPECT_DOUBLE_EQ(AdaptKlCoef(0.1, 0, 256, 6, 1024, 1e-4), 0.1 * 0.95);
  EXPECT_DOUBLE_EQ(AdaptKlCoef(0.1, 6.6, 256, 6, 1024, 1e-4), 0.1 * 1.025);
  EXPECT_EQ(AdaptKlCoef(0.1, 0, 9000, 6, 1024, 1e-4), 1e-4) << "a batch beyond the horizon";
  EXPECT_EQ(AdaptKlCoef(1e-4, 0, 256, 6, 1024, 1e-4), 1e-4);
}

TEST(RewardShapingTest, LambdaAscendsWhileCostsExceedTheLimit) {
  EstimatorSpec spec;
  spec.cost_limit = 1;
  spec.lambda_lr = 0.1;
  spec.lambda_max = 4;
  // lambda 2: the gradient of lambda * (cost - limit) by log lambda is 2 * (1.5 - 1) = 1.
  EXPECT_NEAR(StepLogLambda(std::log(2.0), 1.5, spec), std::log(2.0) + 0.1, 1e-12);
  EXPECT_NEAR(StepLogLambda(std::log(2.0), 0.5, spec), std::log(2.0) - 0.1, 1e-12);
  EXPECT_DOUBLE_EQ(StepLogLambda(std::log(3.9), 100, spec), std::log(4.0)) << "lambda_max";
  // The step is the derivative of lambda * (cost - limit), by central differences.
  const auto objective = [&](double x) { return std::exp(x) * (1.7 - spec.cost_limit); };
  const double slope = (objective(0.3 + 1e-6) - objective(0.3 - 1e-6)) / 2e-6;
  EXPECT_NEAR(StepLogLambda(0.3, 1.7, spec) - 0.3, 0.1 * slope, 1e-8);
}

TEST(RewardShapingTest, GroupsOfEqualMetricsAreDropped) {
  EstimatorSpec spec;
  spec.filter_groups = true;
  std::vector<Sample> samples(6);
  const uint64_t groups[] = {1, 2, 1, 2, 3, 1};
  const double rewards[] = {.1, 0, .1, 1, 5, .1};
  for (size_t i = 0; i < 6; ++i) samples[i].group = groups[i], samples[i].reward = rewards[i];
  EXPECT_THAT(FilterGroups(samples, spec), ElementsAre(false, true, false, true, true, false))
      << "a group of one is kept: there is nothing to compare it with";
  for (size_t i = 0; i < 6; ++i) samples[i].filter_metric = i == 0 ? 1 : 0;
  EXPECT_THAT(FilterGroups(samples, spec), ElementsAre(true, false, true, false, true, true));
  spec.filter_groups = false;
  EXPECT_THAT(FilterGroups(samples, spec), ElementsAre(true, true, true, true, true, true));
}

// Token by token, as one reads the definition.
double SlowToken(const Batch& b, size_t i, size_t t, const EstimatorSpec& spec, double coef) {
  if (!b.In(i, t)) return 0;
  double r = b.token_rewards[i].empty() ? 0 : b.token_rewards[i][t];
  if (spec.use_kl_in_reward) {
    const double d = static_cast<double>(b.log_probs[i][t]) - b.ref_log_probs[i][t];
    const double k = spec.kl_penalty == "k1"   ? d
                     : spec.kl_penalty == "k2" ? 0.5 * d * d
                                               : std::min(10.0, std::exp(-d) + d - 1);
    r -= coef * k;
  }
  return r;
}

// A quarter beside 2^24 is more digits than a float32 has.
TEST(RewardShapingTest, TokensAreFloat64) {
  const std::vector<float> rewards = {16777216}, log_probs = {-1}, ref_log_probs = {-2};
  std::vector<Sample> samples(1);
  samples[0].length = 1;
  samples[0].token_rewards = rewards;
  samples[0].log_probs = log_probs;
  samples[0].ref_log_probs = ref_log_probs;
  EstimatorSpec spec;
  spec.use_kl_in_reward = true;
  const Shaping shaping = ShapeRewards(samples, Offsets(samples), spec, 0.25);
  EXPECT_EQ(shaping.reward.tokens[0], 16777215.75);
}

TEST(RewardShapingTest, RandomBatchesAgreeWithTheSlowDefinition) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    const Batch b = RandomBatch(seed, 4 + seed % 9);
    EstimatorSpec spec;
    spec.use_kl_in_reward = seed % 4 != 3;
    spec.kl_penalty = seed % 3 == 0 ? "k1" : seed % 3 == 1 ? "k2" : "k3";
    spec.overlong_buffer_len = seed % 2 == 0 ? 4 : 0;
    spec.max_response_length = 9;
    spec.flawed_positive_penalty = seed % 5 == 0 ? 1 : 0;
    spec.use_cost = seed % 2 == 1;
    const auto offsets = Offsets(b.samples);
    const Shaping shaping = ShapeRewards(b.samples, offsets, spec, 0.3);
    double mean_kl = 0, rows = 0;
    for (size_t i = 0; i < b.samples.size(); ++i) {
      const Sample& s = b.samples[i];
      double outcome = s.reward;
      if (spec.overlong_buffer_len > 0 && s.length > 5) outcome -= (s.length - 5.0) / 4;
      if (spec.flawed_positive_penalty > 0 && s.flawed && s.reward > 0) outcome -= 1;
      EXPECT_NEAR(shaping.reward.outcome[i], outcome, 1e-12);
      double total = outcome, kl = 0, count = 0;
      for (size_t t = 0; t < s.length; ++t) {
        const double want = SlowToken(b, i, t, spec, 0.3);
        const auto& tokens = shaping.reward.tokens;
        EXPECT_NEAR(tokens.empty() ? 0 : tokens[offsets[i] + t], want, 1e-5);
        total += want;
        if (!b.In(i, t)) continue;
        const double plain = b.token_rewards[i].empty() ? 0 : b.token_rewards[i][t];
        kl += (plain - want) / 0.3;
        ++count;
        if (!spec.use_cost || !spec.use_kl_in_reward) continue;
        EXPECT_NEAR(shaping.cost.tokens[offsets[i] + t], plain - want, 1e-5);
      }
      EXPECT_NEAR(shaping.reward.total[i], total, 1e-5);
      if (count > 0) mean_kl += kl / count, ++rows;
      if (!spec.use_cost) continue;
      EXPECT_EQ(shaping.cost.outcome[i], *s.cost);
      EXPECT_NEAR(shaping.cost.total[i], *s.cost + kl * 0.3, 1e-5);
    }
    if (!spec.use_kl_in_reward) continue;
    EXPECT_NEAR(shaping.metrics.at("actor/reward_kl_penalty"), mean_kl / rows, 1e-5);
    EXPECT_EQ(shaping.metrics.at("actor/reward_kl_penalty_coeff"), 0.3);
  }
}

TEST(RewardShapingTest, MetricsByHand) {
  std::vector<Sample> samples(2);
  samples[0].reward = 1, samples[0].length = 10, samples[0].flawed = true;
  samples[1].reward = -1, samples[1].length = 4;
  EstimatorSpec spec;
  spec.overlong_buffer_len = 4;
  spec.max_response_length = 10;
  spec.flawed_positive_penalty = 1;
  const auto metrics = ShapeRewards(samples, Offsets(samples), spec, 0).metrics;
  EXPECT_EQ(metrics.at("critic/score/mean"), 0);
  EXPECT_EQ(metrics.at("critic/score/max"), 1);
  EXPECT_EQ(metrics.at("critic/rewards/mean"), -1) << "1 - 1 - 1 and -1";
  EXPECT_EQ(metrics.at("reward/overlong_penalty/mean"), -0.5);
  EXPECT_EQ(metrics.at("reward/overlong_ratio"), 0.5);
  EXPECT_EQ(metrics.at("reward/flawed_ratio"), 0.5);
}

}  // namespace
}  // namespace baton::algorithms
