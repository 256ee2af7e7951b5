#include "relay/chain/hop_meter.h"

#include "gtest/gtest.h"

namespace baton::relay {
namespace {

absl::Time At(int seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

TEST(HopMeterTest, CountsTheTimeInWhichChunksAreOnTheirWay) {
  HopMeter meter;
  meter.Announce("a", At(10));
  meter.Sent(100);
  meter.Busy(true, At(11));
  meter.Busy(true, At(12));
  meter.Busy(false, At(14));
  meter.Sent(50);
  meter.Busy(true, At(20));
  meter.Arrived(7, 1000, At(21));
  EXPECT_EQ(meter.last().version, 7u);
  EXPECT_EQ(meter.last().size_bytes, 1000u);
  EXPECT_EQ(meter.last().sent_bytes, 150u);
  EXPECT_EQ(meter.last().time, absl::Seconds(11));
  EXPECT_EQ(meter.last().link_time, absl::Seconds(4));
}

TEST(HopMeterTest, AVersionIsMeasuredOverBrokenConnectionsAndAloneForItself) {
  HopMeter meter;
  meter.Announce("a", At(0));
  meter.Sent(100);
  meter.Busy(true, At(1));
  meter.Busy(false, At(2));  // the connection breaks
  meter.Announce("a", At(5));
  meter.Sent(10);
  meter.Busy(true, At(6));
  // The receiver refuses it, and nothing is sent for long.
  meter.Announce("b", At(100));
  meter.Sent(7);
  meter.Busy(true, At(101));
  meter.Arrived(8, 1000, At(103));
  EXPECT_EQ(meter.last().sent_bytes, 7u);
  EXPECT_EQ(meter.last().time, absl::Seconds(3));
  EXPECT_EQ(meter.last().link_time, absl::Seconds(2));
}

}  // namespace
}  // namespace baton::relay
