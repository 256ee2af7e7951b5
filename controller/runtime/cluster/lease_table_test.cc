#include "controller/runtime/cluster/lease_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class LeaseTableTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  LeaseTable table_{&clock_, absl::Seconds(10)};
};

TEST_F(LeaseTableTest, AHeartbeatRenewsUntilTheLeaseHasEnded) {
  table_.Begin("w", 1, clock_.Now());
  clock_.Advance(absl::Seconds(9));
  EXPECT_TRUE(table_.Renew(1));
  clock_.Advance(absl::Seconds(9));
  EXPECT_TRUE(table_.Renew(1));
  clock_.Advance(absl::Seconds(10));
  EXPECT_FALSE(table_.Renew(1));
  EXPECT_FALSE(table_.Renew(2));
}

TEST_F(LeaseTableTest, EachRenewalIsTakenOnceWithTheTimeOfTheLastHeartbeat) {
  table_.Begin("w", 1, clock_.Now());
  table_.Begin("v", 2, clock_.Now());
  EXPECT_THAT(table_.Take(), IsEmpty());
  EXPECT_TRUE(table_.Renew(2));
  EXPECT_TRUE(table_.Renew(1));
  clock_.Advance(absl::Seconds(3));
  EXPECT_TRUE(table_.Renew(1));
  EXPECT_THAT(table_.Take(),
              ElementsAre(Pair(2, clock_.Now() - absl::Seconds(3)), Pair(1, clock_.Now())));
  EXPECT_THAT(table_.Take(), IsEmpty());
  EXPECT_TRUE(table_.Renew(1));
  table_.End(1);
  EXPECT_THAT(table_.Take(), IsEmpty());
  EXPECT_FALSE(table_.Renew(1));
}

TEST_F(LeaseTableTest, AStreamThatWasReplacedRenewsNothingAndTakesNothingAway) {
  table_.Begin("w", 1, clock_.Now());
  table_.Begin("w", 2, clock_.Now());
  EXPECT_FALSE(table_.Renew(1));
  table_.End(1);
  EXPECT_TRUE(table_.Renew(2));
}

}  // namespace
}  // namespace baton::controller
