#include "workers/engine/training/lr_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sdk/common/schema/optimizer_options.h"

namespace baton::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

LrSchedule Make(absl::string_view shape, double peak, double min_ratio, int64_t warmup,
                int64_t total) {
  auto schedule = LrSchedule::Create(shape, peak, min_ratio, warmup, total);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *schedule;
}

TEST(LrScheduleTest, ConstantWithoutWarmupNeverMoves) {
  const LrSchedule schedule = Make("constant", 3e-4, 0, 0, 0);
  for (int64_t step : {0, 1, 17, 1000000}) EXPECT_DOUBLE_EQ(schedule.At(step), 3e-4);
}

TEST(LrScheduleTest, WarmupRisesInEqualStepsToThePeak) {
  const LrSchedule schedule = Make("constant", 8.0, 0.5, 4, 100);
  EXPECT_DOUBLE_EQ(schedule.At(0), 2.0);
  EXPECT_DOUBLE_EQ(schedule.At(1), 4.0);
  EXPECT_DOUBLE_EQ(schedule.At(2), 6.0);
  EXPECT_DOUBLE_EQ(schedule.At(3), 8.0);
  EXPECT_DOUBLE_EQ(schedule.At(4), 8.0);
  EXPECT_DOUBLE_EQ(schedule.At(500), 8.0);
}

TEST(LrScheduleTest, LinearFallsToItsFloorAndStays) {
  // Peak 10, floor 1 (a tenth), warm-up 2, eight steps of falling: 10 - 9 * k / 8.
  const LrSchedule schedule = Make("linear", 10.0, 0.1, 2, 10);
  EXPECT_DOUBLE_EQ(schedule.At(0), 5.0);
  EXPECT_DOUBLE_EQ(schedule.At(1), 10.0);
  EXPECT_DOUBLE_EQ(schedule.At(2), 10.0);
  EXPECT_DOUBLE_EQ(schedule.At(4), 7.75);
  EXPECT_DOUBLE_EQ(schedule.At(6), 5.5);
  EXPECT_DOUBLE_EQ(schedule.At(9), 2.125);
  EXPECT_DOUBLE_EQ(schedule.At(10), 1.0);
  EXPECT_DOUBLE_EQ(schedule.At(11), 1.0);
}

// However many updates a step has, the first one begins where the step before it left off.
TEST(LrScheduleTest, TheUpdatesOfAStepDivideIt) {
  // Warm-up to 12 in 2 steps, then down to 0 in 4.
  const LrSchedule schedule = Make("linear", 12.0, 0, 2, 6);
  EXPECT_DOUBLE_EQ(schedule.At(0, 0, 3), 2.0);
  EXPECT_DOUBLE_EQ(schedule.At(0, 2, 3), 6.0);
  EXPECT_DOUBLE_EQ(schedule.At(1, 0, 2), 9.0);
  EXPECT_DOUBLE_EQ(schedule.At(1, 1, 2), 12.0);
  EXPECT_DOUBLE_EQ(schedule.At(2, 0, 1), 12.0);
  EXPECT_DOUBLE_EQ(schedule.At(3, 0, 2), 9.0);
  EXPECT_DOUBLE_EQ(schedule.At(3, 1, 2), 7.5);
  EXPECT_DOUBLE_EQ(schedule.At(5, 0, 1), 3.0);
  EXPECT_DOUBLE_EQ(schedule.At(5, 3, 4), 0.75);
  EXPECT_DOUBLE_EQ(schedule.At(6, 0, 4), 0);
}

TEST(LrScheduleTest, CosineGoesThroughItsKnownPoints) {
  // (1 + cos(pi p)) / 2 is 1, 3/4, 1/2, 1/4, 0 at p = 0, 1/3, 1/2, 2/3, 1; floor 0.2 of 5 is 1.
  const LrSchedule schedule = Make("cosine", 5.0, 0.2, 0, 6);
  EXPECT_DOUBLE_EQ(schedule.At(0), 5.0);
  EXPECT_NEAR(schedule.At(2), 4.0, 1e-12);
  EXPECT_NEAR(schedule.At(3), 3.0, 1e-12);
  EXPECT_NEAR(schedule.At(4), 2.0, 1e-12);
  EXPECT_NEAR(schedule.At(6), 1.0, 1e-12);
  EXPECT_NEAR(schedule.At(60), 1.0, 1e-12);
}

TEST(LrScheduleTest, NamesEveryBadOptionAtOnce) {
  const auto schedule =
      LrSchedule::Create("cosin", std::numeric_limits<double>::quiet_NaN(), 1.5, -1, 0);
  ASSERT_EQ(schedule.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(schedule.status().message()),
              AllOf(HasSubstr("'cosin'"), HasSubstr("lr: nan"), HasSubstr("min_lr_ratio: 1.5"),
                    HasSubstr("lr_warmup_steps: -1")));
}

TEST(LrScheduleTest, ADecayNeedsStepsToDecayIn) {
  EXPECT_FALSE(LrSchedule::Create("linear", 1, 0, 10, 10).ok());
  EXPECT_FALSE(LrSchedule::Create("cosine", 1, 0, 0, 0).ok());
  EXPECT_TRUE(LrSchedule::Create("cosine", 1, 0, 0, 1).ok());
}

TEST(LrScheduleTest, KnowsEveryNameThatAJobMayAskFor) {
  const auto* row = FindOption(OptimizerOptionTable(), "lr_schedule");
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(row->limits.choices.size(), 3u);
  for (const absl::string_view shape : row->limits.choices) {
    EXPECT_TRUE(LrSchedule::Create(shape, 1, 0, 0, 1).ok()) << shape;
  }
}

}  // namespace
}  // namespace baton::engine
