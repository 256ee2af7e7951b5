#include "sdk/cli/cluster/up_counts.h"

#include "gtest/gtest.h"

namespace baton::cli {
namespace {

TEST(UpCountsTest, ALargeMachineRunsSeveralJobsAtOnce) {
  const UpCounts two = {
      {"rewards", 1}, {"rollouts", 2}, {"scorers", 2}, {"trainers", 1}, {"workers", 0}};
  EXPECT_EQ(DefaultUpCounts(1), two);
  EXPECT_EQ(DefaultUpCounts(2), two);
  const UpCounts eight = {
      {"rewards", 2}, {"rollouts", 4}, {"scorers", 2}, {"trainers", 2}, {"workers", 0}};
  EXPECT_EQ(DefaultUpCounts(8), eight);
  const UpCounts many = {
      {"rewards", 8}, {"rollouts", 16}, {"scorers", 8}, {"trainers", 8}, {"workers", 0}};
  EXPECT_EQ(DefaultUpCounts(256), many);
}

TEST(UpCountsTest, AQuotaCountsAsCores) {
  EXPECT_EQ(CoresWithin("max 100000\n", 64), 64);
  EXPECT_EQ(CoresWithin("200000 100000\n", 64), 2);
  EXPECT_EQ(CoresWithin("150000 100000\n", 64), 2);
  EXPECT_EQ(CoresWithin("1000 100000\n", 64), 1);
  EXPECT_EQ(CoresWithin("800000 100000\n", 4), 4);
  EXPECT_EQ(CoresWithin("", 4), 4);
  EXPECT_EQ(CoresWithin("0 0", 4), 4);
  EXPECT_GE(UsableCores(), 1);
}

TEST(UpCountsTest, WritesCountsForPeopleAndForTheController) {
  EXPECT_EQ(UpCountsText(DefaultUpCounts(2)), "1 trainer, 2 rollouts, 1 reward, 2 scorers");
  EXPECT_EQ(UpCountsText({{"workers", 4}, {"trainers", 0}}), "4 workers");
  EXPECT_EQ(UpCountsFlag({{"trainers", 2}, {"workers", 0}}), "trainers=2,workers=0");
}

}  // namespace
}  // namespace baton::cli
