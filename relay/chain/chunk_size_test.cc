#include "relay/chain/chunk_size.h"

#include <cmath>

#include "gtest/gtest.h"

namespace baton::relay {
namespace {

LinkCost Measured(absl::Duration round_trip, double bytes_per_second) {
  LinkCost cost;
  cost.ObserveRoundTrip(round_trip);
  cost.ObserveTransfer(100'000'000, absl::Seconds(100'000'000 / bytes_per_second));
  return cost;
}

// The model itself, tried with every number of chunks.
double Seconds(int relays, double size, double chunk, double startup, double per_byte) {
  return (relays + std::ceil(size / chunk) - 2) * (startup + chunk * per_byte);
}

TEST(ChunkSizeTest, NoSizeIsMuchBetterByTheModel) {
  for (int relays : {3, 8, 128}) {
    for (double size : {64e6, 1e9, 140e9}) {
      for (double pace : {31.25e6, 1.25e9, 25e9}) {
        const LinkCost cost = Measured(absl::Microseconds(400), pace);
        const auto chunk =
            static_cast<double>(ChunkBytes(relays, static_cast<uint64_t>(size), cost));
        double best = 1e300;
        for (double tried = kLeastChunkBytes; tried <= kMostChunkBytes; tried *= 1.1) {
          best = std::min(best, Seconds(relays, size, tried, 200e-6, 1 / pace));
        }
        EXPECT_LE(Seconds(relays, size, chunk, 200e-6, 1 / pace), 1.05 * best)
            << relays << " relays, " << size << " bytes, " << pace << " bytes/s";
      }
    }
  }
}

TEST(ChunkSizeTest, WorkedOutByHand) {
  // k = sqrt(6 * 64 MiB * 32 ns / 200 us) = 253.8; 64 MiB / k = 264,403 bytes; 64 pages.
  EXPECT_EQ(ChunkBytes(8, 64 << 20, Measured(absl::Microseconds(400), 31.25e6)), 64u * 4096);
  // Two relays: nobody forwards, and chunks are as large as may be.
  EXPECT_EQ(ChunkBytes(2, 1 << 30, Measured(absl::Microseconds(400), 31.25e6)), kMostChunkBytes);
  EXPECT_EQ(ChunkBytes(128, 10 << 20, Measured(absl::Nanoseconds(2), 1e6)), kLeastChunkBytes);
}

TEST(ChunkSizeTest, MeasurementsAreAveragedAndShortOnesIgnored) {
  LinkCost cost;
  cost.ObserveTransfer(1000, absl::Seconds(1));
  EXPECT_DOUBLE_EQ(cost.seconds_per_byte(), 0.8e-9);
  cost.ObserveTransfer(10'000'000, absl::Seconds(1));
  EXPECT_DOUBLE_EQ(cost.seconds_per_byte(), 1e-7);
  cost.ObserveTransfer(10'000'000, absl::Seconds(3));
  EXPECT_DOUBLE_EQ(cost.seconds_per_byte(), 2e-7);
  cost.ObserveRoundTrip(absl::Milliseconds(2));
  cost.ObserveRoundTrip(absl::Milliseconds(4));
  EXPECT_EQ(cost.startup(), absl::Microseconds(1500));
}

}  // namespace
}  // namespace baton::relay
