#include "controller/algorithms/rollout_mismatch.h"

#include <cmath>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::algorithms {
namespace {

using ::testing::IsEmpty;

struct Columns {
  std::vector<float> recomputed, rollout;
  std::vector<uint8_t> mask;
};

std::vector<Sample> SamplesOf(const std::vector<Columns>& columns) {
  std::vector<Sample> samples(columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    samples[i].length = columns[i].recomputed.size();
    samples[i].log_probs = columns[i].recomputed;
    samples[i].rollout_log_probs = columns[i].rollout;
    samples[i].mask = columns[i].mask;
  }
  return samples;
}

std::map<std::string, double> MetricsOf(const std::vector<Columns>& columns) {
  std::map<std::string, double> metrics;
  AddRolloutMismatch(SamplesOf(columns), std::vector<bool>(columns.size(), true), metrics);
  return metrics;
}

// d: 1, -0.5 and 0.25; of the first sequence P = -1.75, Q = -2; of the second P = -0.5, Q = -0.75.
TEST(RolloutMismatchTest, ByHand) {
  auto metrics = MetricsOf({{{-1, -2.5F, 0}, {-2, -2, -90}, {1, 1, 0}}, {{-0.5F}, {-0.75F}, {}}});
  const auto at = [&](const char* name) { return metrics.at(std::string("rollout_corr/") + name); };
  const double e = std::exp(1.0), h = std::exp(-0.5), q = std::exp(0.25);
  EXPECT_NEAR(at("log_prob_abs_diff"), 1.75 / 3, 1e-12);
  EXPECT_EQ(at("log_prob_diff_max"), 1);
  EXPECT_NEAR(at("kl"), -0.75 / 3, 1e-12);
  EXPECT_NEAR(at("k3_kl"), (e - 2 + h - 0.5 + q - 1.25) / 3, 1e-12);
  EXPECT_NEAR(at("training_ppl"), (std::exp(1.75) + std::exp(0.5)) / 2, 1e-12);
  EXPECT_NEAR(at("training_log_ppl"), 1.125, 1e-12);
  EXPECT_NEAR(at("rollout_ppl"), (std::exp(2.0) + std::exp(0.75)) / 2, 1e-12);
  EXPECT_NEAR(at("rollout_log_ppl"), 1.375, 1e-12);
  EXPECT_NEAR(at("log_ppl_diff"), -0.25, 1e-12);
  EXPECT_NEAR(at("log_ppl_abs_diff"), 0.25, 1e-12);
  EXPECT_NEAR(at("log_ppl_diff_max"), -0.25, 1e-12);
  EXPECT_NEAR(at("log_ppl_diff_min"), -0.25, 1e-12);
  EXPECT_NEAR(at("ppl_ratio"), std::exp(-0.25), 1e-12);
  EXPECT_NEAR(at("chi2_token"), (e * e + h * h + q * q) / 3 - 1, 1e-12);
  EXPECT_NEAR(at("chi2_seq"), (std::exp(1.0) + std::exp(0.5)) / 2 - 1, 1e-12);
  EXPECT_EQ(metrics.size(), 15u);
}

TEST(RolloutMismatchTest, TheExtremesOfPerplexityAreThoseOfSequences) {
  auto metrics = MetricsOf({{{-1, -3}, {-2, -1}, {}}, {{-1}, {-3}, {}}, {{-2}, {-2}, {}}});
  EXPECT_EQ(metrics.at("rollout_corr/log_ppl_diff_max"), 0.5);
  EXPECT_EQ(metrics.at("rollout_corr/log_ppl_diff_min"), -2);
  EXPECT_NEAR(metrics.at("rollout_corr/log_ppl_abs_diff"), 2.5 / 3, 1e-12);
}

TEST(RolloutMismatchTest, ReportsNoMetricsWithoutLogProbsToCompare) {
  EXPECT_THAT(MetricsOf({}), IsEmpty());
  EXPECT_THAT(MetricsOf({{{-1, -1}, {-2, -2}, {0, 0}}, {{}, {}, {}}}), IsEmpty());
  EXPECT_THAT(MetricsOf({{{-1, -1}, {}, {}}}), IsEmpty());
}

// A fully masked sequence does not change the metrics, and very different policies do not overflow.
TEST(RolloutMismatchTest, StaysFinite) {
  auto metrics = MetricsOf({{{-1}, {-1}, {0}}, {{-1, -1}, {-900, -900}, {}}, {{-900}, {-1}, {}}});
  for (const auto& [name, value] : metrics) EXPECT_TRUE(std::isfinite(value)) << name;
  EXPECT_NEAR(metrics.at("rollout_corr/rollout_ppl"), (std::exp(20.0) + std::exp(1.0)) / 2, 1e-3);
  EXPECT_EQ(metrics.at("rollout_corr/log_ppl_diff_max"), 899);
}

TEST(RolloutMismatchTest, ReportsNoDistanceBetweenEqualPolicies) {
  std::mt19937 rng(3);
  std::vector<Columns> columns(5);
  for (Columns& c : columns) {
    for (int t = 0; t < 6; ++t) c.recomputed.push_back(-0.1F * static_cast<float>(rng() % 40));
    c.rollout = c.recomputed;
  }
  auto metrics = MetricsOf(columns);
  for (const char* name : {"log_prob_abs_diff", "kl", "k3_kl", "log_ppl_diff", "log_ppl_abs_diff",
                           "chi2_token", "chi2_seq"}) {
    EXPECT_EQ(metrics.at(std::string("rollout_corr/") + name), 0) << name;
  }
  EXPECT_EQ(metrics.at("rollout_corr/ppl_ratio"), 1);
  EXPECT_EQ(metrics.at("rollout_corr/training_ppl"), metrics.at("rollout_corr/rollout_ppl"));
}

}  // namespace
}  // namespace baton::algorithms
