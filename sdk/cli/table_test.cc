#include "sdk/cli/table.h"

#include "gtest/gtest.h"

namespace baton::cli {
namespace {

TEST(TableTest, ColumnsLineUp) {
  Table table({"A", "LONG"});
  table.Add({"xyz", "1"});
  EXPECT_EQ(table.Format(), "A    LONG\nxyz  1\n");
}

TEST(TableTest, NumbersAreShort) {
  EXPECT_EQ(ShortNumber(0), "0");
  EXPECT_EQ(ShortNumber(0.87654), "0.877");
  EXPECT_EQ(ShortNumber(1234), "1234");
  EXPECT_EQ(ShortNumber(12345), "12.3k");
  EXPECT_EQ(ShortNumber(3.2e6), "3.2M");
  EXPECT_EQ(ShortNumber(3e-4), "0.0003");
}

TEST(TableTest, DurationsAreShort) {
  EXPECT_EQ(ShortDuration(12.9), "12s");
  EXPECT_EQ(ShortDuration(125), "2m05s");
  EXPECT_EQ(ShortDuration(3780), "1h03m");
}

TEST(TableTest, ACurveRisesFromLowToHigh) {
  EXPECT_EQ(Plot({0, 1}, 10, 2), "       1 ┤ █\n       0 ┤▁█\n");
  EXPECT_EQ(Plot({}, 10, 2), "");
}

TEST(TableTest, LinesAreCutBetweenCharacters) {
  EXPECT_EQ(OneLine("äöü\nx", 10), "äöü⏎x");
  EXPECT_EQ(OneLine("äöü", 2), "äö…");
}

}  // namespace
}  // namespace baton::cli
