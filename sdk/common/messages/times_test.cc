#include "sdk/common/messages/times.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(TimesTest, SecondsAndNanosecondsOfATime) {
  const absl::Time time = absl::FromUnixSeconds(1'700'000'000) + absl::Nanoseconds(123'456'789);
  EXPECT_EQ(ToProto(time).seconds(), 1'700'000'000);
  EXPECT_EQ(ToProto(time).nanos(), 123'456'789);
  EXPECT_EQ(FromProto(ToProto(time)), time);
  EXPECT_EQ(ToProtoSeconds(time).seconds(), 1'700'000'000);
  EXPECT_EQ(ToProtoSeconds(time).nanos(), 0);
}

// A Timestamp counts its nanoseconds forward, also before 1970.
TEST(TimesTest, ATimeBefore1970CountsForward) {
  const absl::Time time = absl::UnixEpoch() - absl::Milliseconds(250);
  EXPECT_EQ(ToProto(time).seconds(), -1);
  EXPECT_EQ(ToProto(time).nanos(), 750'000'000);
  EXPECT_EQ(FromProto(ToProto(time)), time);
}

// Seconds and nanoseconds of a Duration have one sign.
TEST(TimesTest, SecondsAndNanosecondsOfADuration) {
  EXPECT_EQ(ToProto(absl::Milliseconds(1500)).seconds(), 1);
  EXPECT_EQ(ToProto(absl::Milliseconds(1500)).nanos(), 500'000'000);
  EXPECT_EQ(ToProto(-absl::Milliseconds(1500)).seconds(), -1);
  EXPECT_EQ(ToProto(-absl::Milliseconds(1500)).nanos(), -500'000'000);
  EXPECT_EQ(FromProto(ToProto(-absl::Milliseconds(1500))), -absl::Milliseconds(1500));
  EXPECT_GT(FromProto(ToProto(absl::InfiniteDuration())), absl::Hours(24 * 365 * 292));
}

}  // namespace
}  // namespace baton
