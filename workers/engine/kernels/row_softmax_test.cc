#include "workers/engine/kernels/row_softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace baton::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(RowSoftmaxTest, LogProbsAreThoseOfTheSlowDefinition) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> scratch;
  for (const size_t vocab : {1, 7, 16, 255, 256, 257, 1000}) {
    std::vector<float> logits(vocab);
    for (float& logit : logits) logit = 4 * normal(random);
    for (const double temperature : {0.0, 0.3, 1.0, 2.5}) {
      const double t = temperature == 0 ? 1 : temperature;
      double sum = 0;
      for (const float logit : logits) sum += std::exp(logit / t);
      for (const size_t token : {size_t{0}, vocab / 2, vocab - 1}) {
        EXPECT_NEAR(LogProb(logits, static_cast<int64_t>(token), temperature, &scratch),
                    logits[token] / t - std::log(sum), 3e-6)
            << vocab << " at " << temperature;
      }
    }
  }
}

TEST(RowSoftmaxTest, InvalidLogitsGiveNanLogProbs) {
  std::vector<float> scratch;
  for (const float bad : {std::nanf(""), kInfinity}) {
    EXPECT_TRUE(std::isnan(LogProb({1, bad, 0}, 0, 1, &scratch))) << bad;
  }
  EXPECT_TRUE(std::isnan(LogProb({-kInfinity, -kInfinity}, 0, 1, &scratch)));
  EXPECT_EQ(LogProb({0, -kInfinity}, 1, 1, &scratch), -kInfinity);
  EXPECT_EQ(LogProb({0, -kInfinity}, 0, 1, &scratch), 0);
}

TEST(RowSoftmaxTest, SumsBlockByBlock) {
  std::vector<float> weights(kSummedIds + 3, 1.0F);
  std::vector<double> sums = {7};
  EXPECT_EQ(SumWeights(weights, &sums), kSummedIds + 3);
  EXPECT_EQ(sums, (std::vector<double>{kSummedIds, 3}));
  EXPECT_EQ(SumWeights({}, &sums), 0);
  EXPECT_TRUE(sums.empty());
}

}  // namespace
}  // namespace baton::engine
