#include "relay/delta/delta_choice.h"

#include "gtest/gtest.h"

namespace baton::relay {
namespace {

constexpr uint64_t kModel = 1'000'000'000;
constexpr double kGigabit = 8e-9, kHundredGigabit = 0.08e-9;  // seconds a byte

TEST(DeltaChoiceTest, KnowsTheSpecsNames) {
  EXPECT_EQ(ParseEncoding("full"), Encoding::kFull);
  EXPECT_EQ(ParseEncoding("delta"), Encoding::kDelta);
  EXPECT_EQ(ParseEncoding("auto"), Encoding::kAuto);
  EXPECT_EQ(ParseEncoding(""), Encoding::kFull);
  EXPECT_EQ(ParseEncoding("of a later release"), Encoding::kFull);
}

TEST(DeltaChoiceTest, AutoTriesOnLinksThatAreSlowerThanTheEncoder) {
  DeltaChoice choice;
  EXPECT_TRUE(choice.Tries(Encoding::kAuto, kGigabit));
  EXPECT_FALSE(choice.Tries(Encoding::kAuto, kHundredGigabit));
  EXPECT_TRUE(choice.Tries(Encoding::kDelta, kHundredGigabit));
  EXPECT_FALSE(choice.Tries(Encoding::kFull, kGigabit));
}

TEST(DeltaChoiceTest, AutoLearnsWhatDeltasCost) {
  DeltaChoice choice;
  // 20 s for 1 GB that would go in 8 s.
  for (int i = 0; i < 4; ++i) choice.Observe(kModel, kModel / 100, absl::Seconds(20));
  EXPECT_TRUE(choice.Tries(Encoding::kDelta, kGigabit));
  EXPECT_FALSE(choice.Tries(Encoding::kAuto, kGigabit));
  // Perhaps the machine was busy. One is tried after a while, and pays again.
  int waited = 1;
  while (!choice.Tries(Encoding::kAuto, kGigabit)) ++waited;
  EXPECT_EQ(waited, 1 + DeltaChoice::kMostSkipped);
  for (int i = 0; i < 6; ++i) choice.Observe(kModel, kModel / 100, absl::Seconds(1));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(choice.Tries(Encoding::kAuto, kGigabit));
}

TEST(DeltaChoiceTest, DeltasThatAreTooLargeAreTriedMoreSeldom) {
  for (const Encoding encoding : {Encoding::kDelta, Encoding::kAuto}) {
    DeltaChoice choice;
    int tries = 0;
    for (int version = 0; version < 100; ++version) {
      if (!choice.Tries(encoding, kGigabit)) continue;
      ++tries;
      choice.Observe(kModel, 0, absl::Seconds(1));
    }
    // After 0, 2, 5, 10, 19, 36, 53, 70 and 87 versions.
    EXPECT_EQ(tries, 9);
    while (!choice.Tries(encoding, kGigabit)) continue;
    choice.Observe(kModel, kModel / 10, absl::Seconds(1));
    EXPECT_TRUE(choice.Tries(encoding, kGigabit)) << "deltas pay again";
  }
}

}  // namespace
}  // namespace baton::relay
