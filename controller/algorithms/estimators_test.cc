#include "controller/algorithms/estimators.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/algorithms.h"

namespace baton::algorithms {
namespace {

using testing::Batch;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using testing::RandomBatch;

/// One sample per row of rewards' outcomes, all of one group and of two tokens.
Estimate OfOneGroup(Estimator estimator, const std::vector<double>& outcomes,
                    const EstimatorSpec& spec = {}) {
  std::vector<Sample> samples(outcomes.size());
  for (size_t i = 0; i < samples.size(); ++i)
    samples[i].length = 2, samples[i].reward = outcomes[i];
  ShapedRewards rewards{outcomes, outcomes, {}};
  return RunEstimator(estimator, samples, Offsets(samples), rewards, Signal::kReward, spec);
}

TEST(EstimatorsTest, GaeByHand) {
  // Three tokens, reward 1 at the end, gamma 1/2, lam 1/2; the middle token is not the policy's.
  const std::vector<float> values = {1, 99, 2};
  const std::vector<uint8_t> mask = {1, 0, 1};
  Sample s;
  s.length = 3, s.reward = 1, s.values = values, s.mask = mask;
  EstimatorSpec spec;
  spec.gamma = spec.lam = 0.5;
  spec.critic_lam = 1;
  const std::vector<Sample> samples = {s};
  const Estimate e = RunEstimator(Estimator::kGae, samples, Offsets(samples), {{1}, {1}, {}},
                                  Signal::kReward, spec);
  // delta_2 = 1 - 2 = -1; delta_0 = 0 + 1/2 * 2 - 1 = 0; A_0 = 0 + 1/4 * -1.
  EXPECT_TRUE(e.per_token);
  EXPECT_THAT(e.advantages, ElementsAre(-0.25F, 0, -1));
  // With lambda 1 the return is the discounted reward: 1 at the end, 1/2 before.
  EXPECT_THAT(e.returns, ElementsAre(0.5F, 0, 1));
}

TEST(EstimatorsTest, GivenUsesTheAdvantagesThatAMethodComputed) {
  const std::vector<float> tokens = {1, 99, 3};
  const std::vector<uint8_t> mask = {1, 0, 1};
  std::vector<Sample> samples(2);
  samples[0].length = 3, samples[0].mask = mask, samples[0].advantage = 0.5;
  samples[1].length = 1, samples[1].advantage = -2;
  const ShapedRewards rewards{{1, 1}, {1, 1}, {}};
  const auto run = [&] {
    return RunEstimator(Estimator::kGiven, samples, Offsets(samples), rewards, Signal::kReward,
                        EstimatorSpec());
  };
  EXPECT_FALSE(run().per_token);
  EXPECT_THAT(run().advantages, ElementsAre(0.5F, -2));
  samples[0].token_advantages = tokens;  // one has a column: all are per token
  EXPECT_TRUE(run().per_token);
  EXPECT_THAT(run().advantages, ElementsAre(1, 0, 3, -2));
}

TEST(EstimatorsTest, AResponseOfOneToken) {
  const std::vector<float> values = {0.25};
  Sample s;
  s.length = 1, s.values = values;
  const std::vector<Sample> samples = {s};
  const ShapedRewards rewards{{1}, {1}, {}};
  const Estimate gae = RunEstimator(Estimator::kGae, samples, Offsets(samples), rewards,
                                    Signal::kReward, EstimatorSpec());
  EXPECT_THAT(gae.advantages, ElementsAre(0.75F));
  EXPECT_THAT(gae.returns, ElementsAre(1));
  const Estimate rpp = RunEstimator(Estimator::kReinforcePlusPlus, samples, Offsets(samples),
                                    rewards, Signal::kReward, EstimatorSpec());
  EXPECT_THAT(rpp.advantages, ElementsAre(1));
}

TEST(EstimatorsTest, AdaptiveLambdaByHand) {
  EstimatorSpec spec;
  spec.lam = 0.9;
  EXPECT_EQ(PolicyLambda(spec, 5), 0.9);
  spec.adaptive_lam_alpha = 0.05;
  EXPECT_DOUBLE_EQ(PolicyLambda(spec, 200), 0.9);
  EXPECT_DOUBLE_EQ(PolicyLambda(spec, 100), 0.8);
  EXPECT_EQ(PolicyLambda(spec, 20), 0);
  EXPECT_EQ(PolicyLambda(spec, 1), 0) << "not negative";
  EXPECT_EQ(PolicyLambda(spec, 0), 0);
}

TEST(EstimatorsTest, GroupsByHand) {
  // Rewards 1, 0, 0, 1: mean 1/2, sample deviation sqrt(1/3).
  EstimatorSpec spec;
  const double a = 0.5 / (std::sqrt(1.0 / 3) + 1e-6);
  EXPECT_THAT(OfOneGroup(Estimator::kGrpo, {1, 0, 0, 1}, spec).advantages,
              ElementsAre(DoubleNear(a, 1e-6), DoubleNear(-a, 1e-6), DoubleNear(-a, 1e-6),
                          DoubleNear(a, 1e-6)));
  EXPECT_THAT(OfOneGroup(Estimator::kDrGrpo, {1, 0, 0, 1}).advantages,
              ElementsAre(0.5F, -0.5F, -0.5F, 0.5F));
  // RLOO: 1 - (0 + 0 + 1) / 3.
  EXPECT_THAT(OfOneGroup(Estimator::kRloo, {1, 0, 0, 1}).advantages,
              ElementsAre(DoubleNear(2.0 / 3, 1e-6), DoubleNear(-2.0 / 3, 1e-6),
                          DoubleNear(-2.0 / 3, 1e-6), DoubleNear(2.0 / 3, 1e-6)));
  spec.norm_adv_by_std_in_grpo = false;
  EXPECT_THAT(OfOneGroup(Estimator::kGrpo, {1, 0}, spec).advantages, ElementsAre(0.5F, -0.5F));
}

TEST(EstimatorsTest, EqualRewardsAndAGroupOfOne) {
  for (const Estimator e : {Estimator::kGrpo, Estimator::kDrGrpo, Estimator::kRloo,
                            Estimator::kReinforcePlusPlusBaseline}) {
    // The mean of 0.9 three times is not 0.9 in binary.
    EXPECT_THAT(OfOneGroup(e, {.9, .9, .9}).advantages, ElementsAre(0, 0, 0));
    EXPECT_THAT(OfOneGroup(e, {3}).advantages, ElementsAre(3));
  }
}

TEST(EstimatorsTest, RemaxByHand) {
  std::vector<Sample> samples(1);
  samples[0].length = 2, samples[0].reward_baseline = 0.5;
  const Estimate e = RunEstimator(Estimator::kRemax, samples, Offsets(samples),
                                  {{1}, {0.75}, {-0.25, 0}}, Signal::kReward, {});
  EXPECT_THAT(e.advantages, ElementsAre(0.25F, 0.5F));
  EXPECT_THAT(e.returns, ElementsAre(0.75F, 1));
}

// ---- Slow definitions: sums over all later unmasked tokens, in double --------------------------

struct Slow {
  const Batch& b;
  const ShapedRewards& rewards;
  const std::vector<size_t>& offsets;

  std::vector<size_t> Places(size_t i) const {
    std::vector<size_t> places;
    for (size_t t = 0; t < b.samples[i].length; ++t) {
      if (b.In(i, t)) places.push_back(t);
    }
    return places;
  }
  double Reward(size_t i, size_t t) const {
    double r = rewards.tokens.empty() ? 0 : rewards.tokens[offsets[i] + t];
    if (t == Places(i).back()) r += rewards.outcome[i];
    return r;
  }
  double Gae(size_t i, size_t t, const std::vector<float>& values, double gamma, double lam) const {
    const std::vector<size_t> places = Places(i);
    double sum = 0, factor = 1;
    for (size_t k = 0; k < places.size(); ++k) {
      if (places[k] < t) continue;
      const double next = k + 1 < places.size() ? values[places[k + 1]] : 0;
      sum += factor * (Reward(i, places[k]) + gamma * next - values[places[k]]);
      factor *= gamma * lam;
    }
    return sum;
  }
  double Discounted(size_t i, size_t t, double gamma) const {
    double sum = 0, factor = 1;
    for (const size_t place : Places(i)) {
      if (place < t) continue;
      sum += factor * Reward(i, place);
      factor *= gamma;
    }
    return sum;
  }
  double Compared(Estimator e, size_t i, const EstimatorSpec& spec) const {
    double n = 0, sum = 0, squares = 0;
    for (size_t j = 0; j < b.samples.size(); ++j) {
      if (b.samples[j].group == b.samples[i].group) n += 1, sum += rewards.total[j];
    }
    if (n == 1) return rewards.total[i];
    if (e == Estimator::kRloo) return rewards.total[i] - (sum - rewards.total[i]) / (n - 1);
    for (size_t j = 0; j < b.samples.size(); ++j) {
      if (b.samples[j].group == b.samples[i].group)
        squares += std::pow(rewards.total[j] - sum / n, 2);
    }
    const double centred = rewards.total[i] - sum / n;
    if (e != Estimator::kGrpo || !spec.norm_adv_by_std_in_grpo) return centred;
    return squares < 1e-20 ? 0 : centred / (std::sqrt(squares / (n - 1)) + spec.epsilon);
  }
};

TEST(EstimatorsTest, RandomBatchesAgreeWithTheSlowDefinitions) {
  for (uint32_t seed = 0; seed < 80; ++seed) {
    const Batch b = RandomBatch(seed, 4 + seed % 11);
    EstimatorSpec spec;
    spec.gamma = seed % 3 == 0 ? 1 : 0.9;
    spec.lam = seed % 2 == 0 ? 0.95 : 0.5;
    spec.critic_lam = seed % 5 == 0 ? 1 : 0.7;
    spec.adaptive_lam_alpha = seed % 4 == 0 ? 0.3 : 0;
    spec.norm_adv_by_std_in_grpo = seed % 2 == 0;
    spec.use_kl_in_reward = seed % 3 != 1;
    const auto offsets = Offsets(b.samples);
    const ShapedRewards rewards = ShapeRewards(b.samples, offsets, spec, 0.1).reward;
    const Slow slow{b, rewards, offsets};
    for (const std::string& name : EstimatorNames()) {
      SCOPED_TRACE(name);
      const Estimator e = *EstimatorOf(name);
      const Estimate got = RunEstimator(e, b.samples, offsets, rewards, Signal::kReward, spec);
      for (size_t i = 0; i < b.samples.size(); ++i) {
        if (!got.per_token) {
          const double expected = e == Estimator::kGiven ? 0 : slow.Compared(e, i, spec);
          EXPECT_NEAR(got.advantages[i], expected, 1e-5);
          continue;
        }
        const auto places = slow.Places(i);
        const double lam = spec.adaptive_lam_alpha > 0
                               ? std::max(0.0, 1 - 1 / (0.3 * static_cast<double>(places.size())))
                               : spec.lam;
        for (size_t t = 0; t < b.samples[i].length; ++t) {
          double advantage = 0, target = 0;
          if (b.In(i, t)) {
            if (e == Estimator::kGae) {
              advantage = slow.Gae(i, t, b.values[i], spec.gamma, lam);
              target = slow.Gae(i, t, b.values[i], spec.gamma, spec.critic_lam) + b.values[i][t];
            } else if (e == Estimator::kRemax) {
              target = slow.Discounted(i, t, 1);
              advantage = target - *b.samples[i].reward_baseline;
            } else {
              advantage = target = slow.Discounted(i, t, spec.gamma);
            }
          }
          EXPECT_NEAR(got.advantages[offsets[i] + t], advantage, 2e-5);
          EXPECT_NEAR(got.returns[offsets[i] + t], target, 2e-5);
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton::algorithms
