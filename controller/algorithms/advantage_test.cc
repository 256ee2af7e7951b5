#include "controller/algorithms/advantage.h"

#include <cmath>
#include <map>
#include <random>

#include "gtest/gtest.h"

namespace baton::algorithms {
namespace {

TEST(AdvantageTest, WorkedOutByHand) {
  // Rewards 1, 0, 0, 1: mean 1/2, sample deviation sqrt(4 * 1/4 / 3) = 0.577350269.
  const auto out = GroupAdvantages({{7, 1}, {7, 0}, {7, 0}, {7, 1}}, {});
  EXPECT_NEAR(out.values[0], 0.5 / (0.577350269 + 1e-6), 1e-8);
  EXPECT_NEAR(out.values[1], -0.5 / (0.577350269 + 1e-6), 1e-8);
  GroupAdvantageOptions plain;
  plain.norm_adv_by_std_in_grpo = false;
  EXPECT_DOUBLE_EQ(GroupAdvantages({{7, 1}, {7, 0}}, plain).values[0], 0.5);
}

TEST(AdvantageTest, EqualRewardsTeachNothingAndMayBeDropped) {
  GroupAdvantageOptions filter;
  filter.filter_groups = true;
  // The mean of 0.9 three times is not 0.9 in binary.
  const auto out = GroupAdvantages({{1, .9}, {1, .9}, {1, .9}, {2, 0}, {2, 1}}, filter);
  EXPECT_EQ(out.kept, (std::vector<bool>{false, false, false, true, true}));
  EXPECT_EQ(out.values[0], 0);
  EXPECT_EQ(out.metrics.at("train/filtered_groups"), 1);
  EXPECT_EQ(out.metrics.at("train/groups"), 2);
  EXPECT_TRUE(GroupAdvantages({{1, .1}, {1, .1}}, {}).kept[0]);
}

TEST(AdvantageTest, AGroupOfOneHasNothingToCompareWith) {
  GroupAdvantageOptions filter;
  filter.filter_groups = true;
  const auto out = GroupAdvantages({{1, 3}}, filter);
  EXPECT_EQ(out.values[0], 3);
  EXPECT_TRUE(out.kept[0]);
}

TEST(AdvantageTest, NoSamplesNoAdvantages) { EXPECT_TRUE(GroupAdvantages({}, {}).values.empty()); }

// The formula again, slowly, per sample.
double Slow(const std::vector<RewardedSample>& all, size_t i, bool by_std) {
  double n = 0, sum = 0;
  for (const auto& s : all) {
    if (s.group == all[i].group) n += 1, sum += s.reward;
  }
  if (n == 1) return all[i].reward;
  double squares = 0;
  for (const auto& s : all) {
    if (s.group == all[i].group) squares += std::pow(s.reward - sum / n, 2);
  }
  return (all[i].reward - sum / n) / (by_std ? std::sqrt(squares / (n - 1)) + 1e-6 : 1);
}

TEST(AdvantageTest, RandomGroupsOfAnySizeAgreeWithTheSlowFormula) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<RewardedSample> samples;
    const uint64_t groups = 1 + random() % 5;
    for (uint64_t g = 0; g < groups; ++g) {
      for (uint64_t k = 1 + random() % 6; k-- > 0;) {
        samples.push_back({g, static_cast<double>(random() % 1000) / 37});
      }
    }
    for (bool by_std : {false, true}) {
      GroupAdvantageOptions options;
      options.norm_adv_by_std_in_grpo = by_std;
      const auto out = GroupAdvantages(samples, options);
      for (size_t i = 0; i < samples.size(); ++i) {
        EXPECT_NEAR(out.values[i], Slow(samples, i, by_std), 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace baton::algorithms
