#include "controller/runtime/cluster/lease_book.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class LeaseBookTest : public ::testing::Test {
 protected:
  FakeClock clock_;
  LeaseBook book_{&clock_, absl::Seconds(10)};
};

TEST_F(LeaseBookTest, AHeartbeatRenewsUntilTheLeaseHasEnded) {
  book_.Begin("w", 1, clock_.Now());
  clock_.Advance(absl::Seconds(9));
  EXPECT_TRUE(book_.Renew(1));
  clock_.Advance(absl::Seconds(9));
  EXPECT_TRUE(book_.Renew(1));
  clock_.Advance(absl::Seconds(10));
  EXPECT_FALSE(book_.Renew(1));
  EXPECT_FALSE(book_.Renew(2));
}

TEST_F(LeaseBookTest, EachRenewalIsTakenOnceWithTheTimeOfTheLastHeartbeat) {
  book_.Begin("w", 1, clock_.Now());
  book_.Begin("v", 2, clock_.Now());
  EXPECT_THAT(book_.Take(), IsEmpty());
  EXPECT_TRUE(book_.Renew(2));
  EXPECT_TRUE(book_.Renew(1));
  clock_.Advance(absl::Seconds(3));
  EXPECT_TRUE(book_.Renew(1));
  EXPECT_THAT(book_.Take(),
              ElementsAre(Pair(2, clock_.Now() - absl::Seconds(3)), Pair(1, clock_.Now())));
  EXPECT_THAT(book_.Take(), IsEmpty());
  EXPECT_TRUE(book_.Renew(1));
  book_.End(1);
  EXPECT_THAT(book_.Take(), IsEmpty());
  EXPECT_FALSE(book_.Renew(1));
}

TEST_F(LeaseBookTest, AStreamThatWasReplacedRenewsNothingAndTakesNothingAway) {
  book_.Begin("w", 1, clock_.Now());
  book_.Begin("w", 2, clock_.Now());
  EXPECT_FALSE(book_.Renew(1));
  book_.End(1);
  EXPECT_TRUE(book_.Renew(2));
}

}  // namespace
}  // namespace baton::controller
