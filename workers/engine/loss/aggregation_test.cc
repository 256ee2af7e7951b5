#include "workers/engine/loss/aggregation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "sdk/common/schema/loss_options.h"

namespace baton::engine {
namespace {

using Matrix = std::vector<std::vector<double>>;

// The textbook definitions on a padded matrix, written as one reads them.
double SlowAggregate(const std::string& mode, const Matrix& loss, const Matrix& mask,
                     double scale) {
  double token_sum = 0, token_count = 0, sequence_sum = 0, sequence_count = 0;
  for (size_t i = 0; i < loss.size(); ++i) {
    double sum = 0, count = 0;
    for (size_t t = 0; t < loss[i].size(); ++t) {
      sum += loss[i][t] * mask[i][t];
      count += mask[i][t];
    }
    token_sum += sum;
    token_count += count;
    if (count == 0) continue;
    sequence_count += 1;
    if (mode == "seq-mean-token-sum") sequence_sum += sum;
    if (mode == "seq-mean-token-mean") sequence_sum += sum / count;
    if (mode == "seq-mean-token-sum-norm") sequence_sum += sum / scale;
  }
  return mode == "token-mean" ? token_sum / token_count : sequence_sum / sequence_count;
}

double FastAggregate(const std::string& mode, const Matrix& loss, const Matrix& mask,
                     double scale) {
  std::vector<int64_t> counts;
  for (const auto& row : mask) {
    counts.push_back(0);
    for (double m : row) counts.back() += m != 0;
  }
  const auto aggregation = ParseLossAggregation(mode);
  EXPECT_TRUE(aggregation.ok()) << aggregation.status();
  const std::vector<double> weights = TokenWeights(*aggregation, counts, scale);
  double total = 0;
  for (size_t i = 0; i < loss.size(); ++i) {
    for (size_t t = 0; t < loss[i].size(); ++t) total += weights[i] * mask[i][t] * loss[i][t];
  }
  return total;
}

class AggregationTest : public ::testing::TestWithParam<std::string> {};

TEST_P(AggregationTest, EqualsTheDefinitionOnRandomRaggedBatches) {
  std::mt19937 rng(7);
  std::uniform_real_distribution<double> value(-3, 3);
  for (int round = 0; round < 200; ++round) {
    const int rows = 1 + static_cast<int>(rng() % 7);
    Matrix loss(rows), mask(rows);
    bool any = false;
    for (int i = 0; i < rows; ++i) {
      const bool fully_masked = rng() % 5 == 0;
      for (int t = static_cast<int>(1 + rng() % 9); t > 0; --t) {
        loss[i].push_back(value(rng));
        mask[i].push_back(!fully_masked && rng() % 4 != 0 ? 1 : 0);
        any |= mask[i].back() != 0;
      }
    }
    if (!any) continue;
    EXPECT_NEAR(FastAggregate(GetParam(), loss, mask, 12.5),
                SlowAggregate(GetParam(), loss, mask, 12.5), 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, AggregationTest,
                         ::testing::Values("token-mean", "seq-mean-token-sum",
                                           "seq-mean-token-mean", "seq-mean-token-sum-norm"));

TEST(AggregationTest, WeightsByHand) {
  // Lengths 1 and 3, and a row with nothing in it.
  const std::vector<int64_t> counts = {1, 3, 0};
  EXPECT_THAT(TokenWeights(LossAggregation::kTokenMean, counts, 0),
              ::testing::ElementsAre(0.25, 0.25, 0));
  EXPECT_THAT(TokenWeights(LossAggregation::kSeqMeanTokenSum, counts, 0),
              ::testing::ElementsAre(0.5, 0.5, 0));
  EXPECT_THAT(TokenWeights(LossAggregation::kSeqMeanTokenMean, counts, 0),
              ::testing::ElementsAre(0.5, ::testing::DoubleEq(1.0 / 6), 0));
  EXPECT_THAT(TokenWeights(LossAggregation::kSeqMeanTokenSumNorm, counts, 4),
              ::testing::ElementsAre(0.125, 0.125, 0));
}

TEST(AggregationTest, GivesFullyMaskedSequencesNoWeight) {
  const std::vector<int64_t> counts = {0, 0};
  EXPECT_THAT(TokenWeights(LossAggregation::kTokenMean, counts, 1), ::testing::ElementsAre(0, 0));
}

TEST(AggregationTest, AnUnknownNameIsAnErrorThatListsTheKnownOnes) {
  const auto mode = ParseLossAggregation("token_mean");
  ASSERT_EQ(mode.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(mode.status().message()),
              ::testing::AllOf(::testing::HasSubstr("'token_mean'"),
                               ::testing::HasSubstr("seq-mean-token-sum-norm")));
}

TEST(AggregationTest, KnowsEveryNameThatAJobMayAskFor) {
  const auto* row = FindOption(LossOptionTable(), "loss_agg_mode");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->limits.choices.size(), 4u);
  for (const absl::string_view mode : row->limits.choices) {
    EXPECT_TRUE(ParseLossAggregation(mode).ok()) << mode;
  }
}

}  // namespace
}  // namespace baton::engine
