#include "sdk/cli/shared/table.h"

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

TEST(TableTest, RemovesTerminalControlCharacters) {
  EXPECT_EQ(OneLine("a\x1b[2Jb", 20), "a [2Jb");
  EXPECT_EQ(OneLine("a\x7f"
                    "b",
                    20),
            "a b")
      << "DEL";
  EXPECT_EQ(OneLine("a\u009b2Jb", 20), "a 2Jb") << "the one-character form of ESC [";
  EXPECT_EQ(OneLine("a\x9b"
                    "b",
                    20),
            "a\uFFFD"
            "b")
      << "the same as a bare byte";
}

TEST(TableTest, LinesOfATextStayLines) {
  EXPECT_EQ(ForTerminal("a\n\x1b[2J\tb\x7f\u009b\xff\n"), "a\n [2J b  \uFFFD\n");
  EXPECT_EQ(ForTerminal("→ äöü"), "→ äöü");
}

}  // namespace
}  // namespace baton::cli
