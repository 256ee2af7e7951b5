#include "controller/core/trajectories/step_cost.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

TEST(StepCostTest, FitsALineThroughTheStepTimes) {
  StepCost cost;
  for (int i = 0; i < 50; ++i) {
    const double rows = 1 + i % 16;
    cost.Note(rows, 0.030 + 0.002 * rows);
  }
  EXPECT_NEAR(cost.Seconds(1), 0.032, 1e-6);
  EXPECT_NEAR(cost.Seconds(64), 0.158, 1e-6);
  EXPECT_NEAR(cost.FixedRows(), 15, 1e-6);
  // A replica with one response and one with sixteen, both as they should be, are as fast.
  EXPECT_NEAR(cost.AtMeanRows(1, 0.032), cost.AtMeanRows(16, 0.062), 1e-6);
  // A replica that is twice as slow is detected at any load.
  EXPECT_NEAR(cost.AtMeanRows(1, 0.064), 2 * cost.AtMeanRows(16, 0.062), 1e-6);
}

TEST(StepCostTest, AssumesAConstantCostWithoutASlope) {
  StepCost cost;
  EXPECT_EQ(cost.Seconds(3), 0);
  EXPECT_EQ(cost.AtMeanRows(3, 0.5), 0.5);
  EXPECT_TRUE(std::isinf(cost.FixedRows()));
  for (int i = 0; i < 20; ++i) cost.Note(8, 0.1);  // all of one size
  EXPECT_TRUE(std::isinf(cost.FixedRows()));
  EXPECT_NEAR(cost.AtMeanRows(8, 0.2), 0.2, 1e-12);
}

TEST(StepCostTest, NoiseYieldsNoCostBelowZero) {
  StepCost steeper;  // than through the origin
  steeper.Note(1, 0.001);
  steeper.Note(10, 0.1);
  EXPECT_EQ(steeper.FixedRows(), 0);
  EXPECT_GT(steeper.Seconds(1), 0);
  StepCost falling;
  falling.Note(1, 0.1);
  falling.Note(10, 0.05);
  EXPECT_TRUE(std::isinf(falling.FixedRows()));
  EXPECT_GT(falling.Seconds(100), 0);
}

TEST(StepCostTest, IgnoresInvalidMeasurements) {
  StepCost cost;
  cost.Note(4, 0.1);
  const double before = cost.Seconds(4);
  for (const double bad :
       {0.0, -1.0, 1e200, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(cost.Note(bad, 0.1));
    EXPECT_FALSE(cost.Note(4, bad));
  }
  EXPECT_EQ(cost.Seconds(4), before);
}

TEST(StepCostTest, OldMeasurementsAreForgotten) {
  StepCost cost;
  for (int i = 0; i < 5000; ++i) cost.Note(1 + i % 8, 1);
  for (int i = 0; i < 5000; ++i) cost.Note(1 + i % 8, 0.01);
  EXPECT_NEAR(cost.Seconds(4), 0.01, 1e-3);
}

}  // namespace
}  // namespace baton::controller
