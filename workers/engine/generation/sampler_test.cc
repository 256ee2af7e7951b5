#include "workers/engine/generation/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "workers/engine/kernels/philox.h"

namespace baton::engine {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> RandomLogits(int n, unsigned seed, double spread = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, spread);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = static_cast<float>(normal(random));
  return logits;
}

// The distribution that the header describes, slowly and in double precision: full sort, one token
// taken after the other.
std::vector<double> SlowDistribution(const std::vector<float>& logits, double temperature,
                                     int64_t top_k, double top_p,
                                     const std::vector<int64_t>& banned = {}) {
  const size_t n = logits.size();
  std::vector<double> p(n);
  double total = 0;
  for (size_t i = 0; i < n; ++i) {
    p[i] = std::exp(static_cast<double>(logits[i]) / temperature);
    if (std::count(banned.begin(), banned.end(), static_cast<int64_t>(i)) > 0) p[i] = 0;
    total += p[i];
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  if (top_k > 0) {
    for (size_t rank = top_k; rank < n; ++rank) p[order[rank]] = 0;
  }
  total = std::accumulate(p.begin(), p.end(), 0.0);
  double taken = 0;
  for (size_t id : order) {
    if (taken >= top_p * total) p[id] = 0;
    taken += p[id];
  }
  total = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= total;
  return p;
}

int32_t SlowInverse(const std::vector<double>& p, double uniform) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    sum += p[i];
    if (sum > uniform) return static_cast<int32_t>(i);
  }
  return static_cast<int32_t>(p.size()) - 1;
}

SampledToken MustSample(const std::vector<float>& logits, const SamplingParams& params, double u,
                        const std::vector<int64_t>& banned = {}) {
  Sampler sampler;
  const auto sampled = sampler.Sample(logits, params, banned, u);
  EXPECT_TRUE(sampled.ok()) << sampled.status();
  return sampled.ok() ? *sampled : SampledToken{-1, 0, 0};
}

TEST(SamplerTest, InvertsByHand) {
  // Probabilities 1/10, 2/10, 3/10, 4/10.
  const std::vector<float> logits = {std::log(1.f), std::log(2.f), std::log(3.f), std::log(4.f)};
  const SamplingParams params;
  EXPECT_EQ(MustSample(logits, params, 0.0).token, 0);
  EXPECT_EQ(MustSample(logits, params, 0.0999).token, 0);
  EXPECT_EQ(MustSample(logits, params, 0.1001).token, 1);
  EXPECT_EQ(MustSample(logits, params, 0.2999).token, 1);
  EXPECT_EQ(MustSample(logits, params, 0.3001).token, 2);
  EXPECT_EQ(MustSample(logits, params, 0.5999).token, 2);
  EXPECT_EQ(MustSample(logits, params, 0.6001).token, 3);
  EXPECT_EQ(MustSample(logits, params, 1.0 - 0x1p-53).token, 3);
  EXPECT_NEAR(MustSample(logits, params, 0.5).log_prob, std::log(0.3), 1e-6);
}

class SamplerAgainstSlowTest : public ::testing::TestWithParam<int> {};

// Any row length (whole lanes, tails, several blocks), all cuts: same token wherever the slow sum
// is not within rounding of the draw, and the same log-probability.
TEST_P(SamplerAgainstSlowTest, TokenAndLogProb) {
  const int n = GetParam();
  Sampler sampler;  // one for all: scratch of one row must not leak into the next
  int checked = 0;
  for (const double temperature : {0.25, 1.0, 2.5}) {
    for (const int64_t top_k : {0, 1, 3, 50, 100000}) {
      for (const double top_p : {1.0, 0.9, 0.5, 1e-9}) {
        const std::vector<float> logits = RandomLogits(n, n + checked);
        SamplingParams params;
        params.temperature = temperature;
        params.top_k = top_k;
        params.top_p = top_p;
        const auto p = SlowDistribution(logits, temperature, std::min<int64_t>(top_k, n), top_p);
        const auto whole = SlowDistribution(logits, temperature, 0, 1);
        for (uint32_t draw = 0; draw < 20; ++draw) {
          const double u = UniformStream({7, 1, static_cast<uint64_t>(n), 0, draw}).At(checked);
          const auto sampled = sampler.Sample(logits, params, {}, u);
          ASSERT_TRUE(sampled.ok()) << sampled.status();
          const bool near_edge = SlowInverse(p, u - 1e-6) != SlowInverse(p, u + 1e-6);
          if (!near_edge) {
            ASSERT_EQ(sampled->token, SlowInverse(p, u))
                << "T " << temperature << " k " << top_k << " p " << top_p;
          }
          ASSERT_GT(p[sampled->token], 0) << "a token that was cut";
          ASSERT_NEAR(sampled->sampling_log_prob, std::log(p[sampled->token]), 2e-6);
          ASSERT_NEAR(sampled->log_prob, std::log(whole[sampled->token]), 4e-6);
          if (top_k == 0 && top_p == 1) {
            ASSERT_EQ(sampled->log_prob, sampled->sampling_log_prob);
          }
        }
        ++checked;
      }
    }
  }
}
INSTANTIATE_TEST_SUITE_P(RowLengths, SamplerAgainstSlowTest,
                         ::testing::Values(1, 2, 15, 16, 17, 32, 97, 255, 256, 257, 1000, 5003));

TEST(SamplerTest, FrequenciesMatchProbabilities) {
  const std::vector<float> logits = RandomLogits(12, 5, 1.0);
  struct Case {
    double temperature;
    int64_t top_k;
    double top_p;
  };
  for (const Case& c : {Case{1, 0, 1}, Case{0.7, 0, 0.8}, Case{1.5, 6, 1}, Case{1, 8, 0.9}}) {
    SamplingParams params;
    params.temperature = c.temperature;
    params.top_k = c.top_k;
    params.top_p = c.top_p;
    const auto p = SlowDistribution(logits, c.temperature, c.top_k, c.top_p);
    constexpr int kDraws = 20000;
    std::vector<int> counts(p.size(), 0);
    Sampler sampler;
    for (uint32_t i = 0; i < kDraws; ++i) {
      const auto sampled = sampler.Sample(logits, params, {}, UniformStream({3, 0, 0, 0, i}).At(0));
      ASSERT_TRUE(sampled.ok());
      ++counts[sampled->token];
    }
    double chi_square = 0;
    int kept = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      if (p[i] == 0) {
        EXPECT_EQ(counts[i], 0);
        continue;
      }
      ++kept;
      chi_square += std::pow(counts[i] - kDraws * p[i], 2) / (kDraws * p[i]);
    }
    ASSERT_GT(kept, 2);
    const double dof = kept - 1;
    // Wilson-Hilferty: the 0.999 quantile of chi-square.
    const double limit = dof * std::pow(1 - 2 / (9 * dof) + 3.09 * std::sqrt(2 / (9 * dof)), 3);
    EXPECT_LT(chi_square, limit) << "T " << c.temperature << " k " << c.top_k << " p " << c.top_p;
  }
}

TEST(SamplerTest, GreedyTakesTheHighestAndTheLowestIdOfEquals) {
  SamplingParams params;
  params.temperature = 0;
  params.top_k = 1;  // no effect on the log-probability
  std::vector<float> logits(40, 0.0f);
  logits[23] = logits[37] = 2.0f;
  const SampledToken sampled = MustSample(logits, params, 0.999);
  EXPECT_EQ(sampled.token, 23);
  EXPECT_NEAR(sampled.log_prob, 2 - std::log(38 + 2 * std::exp(2.0)), 1e-6);
  EXPECT_EQ(sampled.sampling_log_prob, sampled.log_prob);
}

TEST(SamplerTest, TinyTemperatureIsGreedyInTheLimit) {
  SamplingParams params;
  for (double temperature : {1e-300, std::numeric_limits<double>::denorm_min()}) {
    params.temperature = temperature;
    const SampledToken sampled = MustSample({1.0f, 1.0001f, 0.5f}, params, 0.0);
    EXPECT_EQ(sampled.token, 1);
    EXPECT_EQ(sampled.log_prob, 0.0f);
  }
}

TEST(SamplerTest, EqualLogitsAtTheCutRankById) {
  const std::vector<float> logits = {0, 1, 1, 1, 1, 2};
  SamplingParams params;
  params.top_k = 3;  // tokens 5, 1, 2
  std::vector<int> counts(6, 0);
  for (int i = 0; i < 1000; ++i) ++counts[MustSample(logits, params, i / 1000.0).token];
  EXPECT_THAT(counts, ::testing::ElementsAre(0, ::testing::Gt(0), ::testing::Gt(0), 0, 0,
                                             ::testing::Gt(0)));
  params.top_k = 0;
  params.top_p = 0.6;  // e^2 + 2e reach 0.6 of e^2 + 4e + 1; e^2 + e do not
  counts.assign(6, 0);
  for (int i = 0; i < 1000; ++i) ++counts[MustSample(logits, params, i / 1000.0).token];
  EXPECT_THAT(counts, ::testing::ElementsAre(0, ::testing::Gt(0), ::testing::Gt(0), 0, 0,
                                             ::testing::Gt(0)));
}

TEST(SamplerTest, TokensThatReachTopPExactlyAreEnough) {
  const std::vector<float> logits = {0, 0, 0, 0};
  SamplingParams params;
  params.top_p = 0.5;  // two of four equal tokens
  for (int i = 0; i < 100; ++i) EXPECT_LT(MustSample(logits, params, i / 100.0).token, 2) << i;
  EXPECT_NEAR(MustSample(logits, params, 0).sampling_log_prob, std::log(0.5), 1e-6);
}

TEST(SamplerTest, TokenThatCrossesTopPIsKept) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  SamplingParams params;
  params.top_p = 0.6;  // 0.5 is not enough: 0.5 and 0.3 stay
  EXPECT_EQ(MustSample(logits, params, 0.99).token, 1);
  EXPECT_NEAR(MustSample(logits, params, 0.99).sampling_log_prob, std::log(0.3 / 0.8), 1e-6);
  EXPECT_NEAR(MustSample(logits, params, 0.99).log_prob, std::log(0.3), 1e-6);
}

TEST(SamplerTest, SaysWhetherItDrawsFromLessThanAll) {
  SamplingParams params;
  EXPECT_FALSE(Truncates(params));
  params.min_new_tokens = 1;  // bans what ends a response
  EXPECT_TRUE(Truncates(params));
  params.temperature = 0;
  EXPECT_FALSE(Truncates(params));
  SamplingParams cut;
  cut.top_p = 0.9;
  EXPECT_TRUE(Truncates(cut));
  cut.top_p = 1;
  cut.top_k = 5;
  EXPECT_TRUE(Truncates(cut));
}

TEST(SamplerTest, BannedTokensHaveNoProbability) {
  const std::vector<float> logits = RandomLogits(20, 8);
  const std::vector<int64_t> banned = {0, 7, 19};
  const auto p = SlowDistribution(logits, 1, 0, 1, banned);
  const auto whole = SlowDistribution(logits, 1, 0, 1);
  const SamplingParams params;
  for (int i = 0; i < 500; ++i) {
    const SampledToken sampled = MustSample(logits, params, i / 500.0, banned);
    ASSERT_GT(p[sampled.token], 0);
    ASSERT_NEAR(sampled.sampling_log_prob, std::log(p[sampled.token]), 1e-6);
    ASSERT_NEAR(sampled.log_prob, std::log(whole[sampled.token]), 2e-6);
  }
  SamplingParams greedy;
  greedy.temperature = 0;
  const SampledToken second = MustSample({1, 5, 3}, greedy, 0, {1, 1});  // banned twice: once
  EXPECT_EQ(second.token, 2);
  EXPECT_NEAR(second.log_prob, 3 - std::log(std::exp(1.0) + std::exp(5.0) + std::exp(3.0)), 1e-6);
}

TEST(SamplerTest, ABannedTokenMayHaveAlmostAllOfTheProbability) {
  const SampledToken sampled = MustSample({-900, 900, -900}, SamplingParams(), 0.7, {1});
  EXPECT_EQ(sampled.token, 2);
  EXPECT_NEAR(sampled.log_prob, -1800, 1e-3);
  EXPECT_NEAR(sampled.sampling_log_prob, std::log(0.5), 1e-6);
  Sampler sampler;
  EXPECT_FALSE(sampler.Sample({0, kInf, 0}, SamplingParams(), {1}, 0.5).ok());
}

// Weights over many orders of magnitude, and k and p that reach the lowest of them.
TEST(SamplerTest, CutsReachTheFaintestTokens) {
  std::vector<float> logits;
  for (int i = 0; i < 60; ++i) logits.push_back(-1.4f * static_cast<float>(i));
  logits.push_back(-kInf);
  logits.push_back(-1e7f);
  SamplingParams params;
  const SampledToken whole = MustSample(logits, params, 1.0 - 0x1p-53);
  for (const int64_t k : {1, 2, 3, 4, 12, 40, 60, 61}) {
    params.top_k = k;
    const auto p = SlowDistribution(logits, 1, k, 1);
    const SampledToken first = MustSample(logits, params, 0);
    EXPECT_EQ(first.token, 0);
    EXPECT_NEAR(first.sampling_log_prob, std::log(p[0]), 1e-6) << k;
    EXPECT_NEAR(first.log_prob, MustSample(logits, {}, 0).log_prob, 1e-6) << k;
    const SampledToken last = MustSample(logits, params, 1.0 - 0x1p-53);
    EXPECT_LE(last.token, std::min<int64_t>(k - 1, whole.token));
    // The last that is kept is reached where doubles still tell it from the ones before.
    EXPECT_GE(last.token, std::min<int64_t>(k - 1, 20));
  }
  params.top_k = 0;
  for (const double top_p : {0.5, 0.9, 0.999, 1 - 1e-9, 1 - 1e-13}) {
    params.top_p = top_p;
    const auto p = SlowDistribution(logits, 1, 0, top_p);
    int kept = 0;
    while (p[kept] > 0) ++kept;
    const SampledToken last = MustSample(logits, params, 1.0 - 0x1p-53);
    EXPECT_LT(last.token, kept);
    EXPECT_GE(last.token, std::min(kept - 1, 20));
    EXPECT_NEAR(MustSample(logits, params, 0).sampling_log_prob, std::log(p[0]), 1e-6);
  }
}

TEST(SamplerTest, MinusInfinityIsProbabilityZero) {
  std::vector<float> logits(300, -kInf);
  logits[270] = -50;
  logits[280] = -50;
  const SamplingParams params;
  EXPECT_EQ(MustSample(logits, params, 0.0).token, 270);
  EXPECT_EQ(MustSample(logits, params, 0.499).token, 270);
  EXPECT_EQ(MustSample(logits, params, 0.501).token, 280);
  EXPECT_EQ(MustSample(logits, params, 1.0 - 0x1p-53).token, 280);
  EXPECT_NEAR(MustSample(logits, params, 0.7).log_prob, std::log(0.5), 1e-6);
}

TEST(SamplerTest, LargeLogitsDoNotOverflow) {
  const SampledToken sampled = MustSample({30000.0f, 29999.0f, -30000.0f}, SamplingParams(), 0.1);
  EXPECT_EQ(sampled.token, 0);
  EXPECT_NEAR(sampled.log_prob, -std::log1p(std::exp(-1.0)), 1e-6);
}

TEST(SamplerTest, RefusesLogitsWithoutADistribution) {
  Sampler sampler;
  const SamplingParams params;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int at : {0, 5, 16, 19}) {  // in whole lanes and in the tail
    for (float bad : {nan, kInf}) {
      std::vector<float> logits(20, 0.5f);
      logits[at] = bad;
      EXPECT_EQ(sampler.Sample(logits, params, {}, 0.5).status().code(),
                absl::StatusCode::kInvalidArgument);
    }
  }
  EXPECT_FALSE(sampler.Sample(std::vector<float>(4, -kInf), params, {}, 0.5).ok());
  EXPECT_FALSE(sampler.Sample(std::vector<float>{1, 2}, params, {0, 1}, 0.5).ok());
  EXPECT_FALSE(sampler.Sample(absl::Span<const float>(), params, {}, 0.5).ok());
  EXPECT_TRUE(sampler.Sample(std::vector<float>{1, 2}, params, {0}, 0.5).ok()) << "still usable";
}

TEST(SamplingParamsTest, ReportsEveryBadFieldAtOnce) {
  SamplingParams params;
  params.temperature = -1;
  params.top_k = -2;
  params.top_p = 0;
  params.max_new_tokens = 4;
  params.min_new_tokens = 5;
  params.stop_token_ids = {3, 32};
  params.stop_strings = {"ok", ""};
  const absl::Status status = ValidateSamplingParams(params, 32);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* field : {"temperature: -1", "top_k: -2", "top_p: 0", "min_new_tokens: 5",
                            "stop_token_ids: 32", "stop_strings"}) {
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(field));
  }
  SamplingParams nan;
  nan.temperature = std::nan("");
  EXPECT_FALSE(ValidateSamplingParams(nan, 32).ok());
  nan = SamplingParams();
  nan.top_p = std::nan("");
  EXPECT_FALSE(ValidateSamplingParams(nan, 32).ok());
  EXPECT_TRUE(ValidateSamplingParams(SamplingParams(), 32).ok());
}

}  // namespace
}  // namespace baton::engine
