#include "sdk/worker/lease.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

using std::chrono::seconds;

TEST(Lease, CountsFromWhenTheAcknowledgedMessageWasSent) {
  const Lease::Time start{};
  Lease lease;
  EXPECT_FALSE(lease.end().has_value());
  lease.Begin(seconds(10), start);
  EXPECT_EQ(*lease.end(), start + seconds(10));
  const uint64_t first = lease.SendHeartbeat(start + seconds(2));
  const uint64_t second = lease.SendHeartbeat(start + seconds(4));
  EXPECT_EQ(*lease.end(), start + seconds(10));  // Sent is not acknowledged.
  lease.Acknowledge(second);
  EXPECT_EQ(*lease.end(), start + seconds(14));
  lease.Acknowledge(first);  // Late; never shortens.
  EXPECT_EQ(*lease.end(), start + seconds(14));
  lease.Acknowledge(99);  // Never sent.
  EXPECT_EQ(*lease.end(), start + seconds(14));
}

// The machine sleeps for a minute: what it sends when it wakes up is too late.
TEST(Lease, IsNotRenewedByWhatWasSentAfterItsEnd) {
  const Lease::Time start{};
  Lease lease;
  lease.Begin(seconds(10), start);
  EXPECT_TRUE(lease.Holds(start + seconds(9)));
  EXPECT_FALSE(lease.Holds(start + seconds(10)));
  lease.Acknowledge(lease.SendHeartbeat(start + seconds(60)));
  EXPECT_EQ(*lease.end(), start + seconds(10));
  EXPECT_FALSE(lease.Holds(start + seconds(60)));
  const uint64_t in_time = lease.SendHeartbeat(start + seconds(9));
  lease.Acknowledge(in_time);  // it came late, and was sent in time
  EXPECT_TRUE(lease.Holds(start + seconds(18)));
}

TEST(Lease, GoesOnWithoutAConnectionAndEndsOnce) {
  const Lease::Time start{};
  Lease lease;
  lease.Begin(seconds(10), start);
  const uint64_t lost = lease.SendHeartbeat(start + seconds(5));
  lease.Disconnect();
  lease.Acknowledge(lost);
  EXPECT_EQ(*lease.end(), start + seconds(10));
  lease.End();
  EXPECT_FALSE(lease.end().has_value());
  lease.Acknowledge(lease.SendHeartbeat(start + seconds(11)));
  EXPECT_FALSE(lease.end().has_value());  // Only a new Welcome begins one.
}

}  // namespace
}  // namespace baton
