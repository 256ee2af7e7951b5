#include "sdk/common/base/bounds.h"

#include <gtest/gtest.h>

#include <cmath>

namespace baton {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(BoundsTest, WritesNumbersShortAndExactly) {
  EXPECT_EQ(NumberText(0.2), "0.2");
  EXPECT_EQ(NumberText(10000001), "10000001");
  EXPECT_EQ(NumberText(1125899906842624), "1125899906842624");
  EXPECT_EQ(NumberText(-0.0), "0");
  EXPECT_EQ(NumberText(1e-8), "1e-8");
  EXPECT_EQ(NumberText(1e-20), "1e-20");
  EXPECT_EQ(NumberText(0.9999999), "0.9999999");
  EXPECT_EQ(NumberText(1e300), "1e+300");
}

TEST(BoundsTest, SaysWhatIsAllowed) {
  EXPECT_EQ(NumberProblem(1024, {1, 1024}), "");
  EXPECT_EQ(NumberProblem(0, {1, 1024}), "0 is not in [1, 1024]");
  EXPECT_EQ(NumberProblem(1, {0, 0.9999999}), "1 is not in [0, 0.9999999]");
  EXPECT_EQ(NumberProblem(0, {0}), "");
  EXPECT_EQ(NumberProblem(-1, {0}), "-1 is not at least 0");
  EXPECT_EQ(NumberProblem(0, {0, kInfinity, true}), "0 is not above 0");
  EXPECT_EQ(NumberProblem(1e-300, {0, kInfinity, true}), "");
  EXPECT_EQ(NumberProblem(0, {0, 1, true}), "0 is not in (0, 1]");
  EXPECT_EQ(NumberProblem(2, {-kInfinity, 1}), "2 is not at most 1");
}

TEST(BoundsTest, RefusesNumbersThatAreNotFinite) {
  EXPECT_EQ(NumberProblem(kInfinity, {}), "inf is not a finite number");
  EXPECT_EQ(NumberProblem(std::nan(""), {0, 1}), "nan is not a finite number");
}

TEST(BoundsTest, WritesBoundsAsText) {
  EXPECT_EQ(BoundsText({1, 1024}), "1 to 1024");
  EXPECT_EQ(BoundsText({0}), "at least 0");
  EXPECT_EQ(BoundsText({0, kInfinity, true}), "above 0");
  EXPECT_EQ(BoundsText({-kInfinity, 1}), "at most 1");
  EXPECT_EQ(BoundsText({}), "");
}

}  // namespace
}  // namespace baton
