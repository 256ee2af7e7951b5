#include "controller/core/steps/admission_pace.h"

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1000);

TEST(AdmissionBoundTest, AGroupBeginsIfItIsConsumedWithinTheBound) {
  EXPECT_TRUE(MayBegin({0, 4, 3, 0}));
  EXPECT_FALSE(MayBegin({0, 4, 4, 0})) << "the next batch is of newer weights";
  EXPECT_FALSE(MayBegin({0, 4, 0, 1})) << "so is this one";
  EXPECT_TRUE(MayBegin({2, 4, 11, 0}));
  EXPECT_FALSE(MayBegin({2, 4, 12, 0}));
  EXPECT_TRUE(MayBegin({2, 4, 7, 1}));
  EXPECT_FALSE(MayBegin({2, 4, 8, 1}));
  EXPECT_FALSE(MayBegin({32, 4, 0, std::nullopt})) << "weights of unknown origin";
}

TEST(AdmissionPaceTest, IsUnboundedUntilItHasMeasurements) {
  AdmissionPace pace;
  EXPECT_EQ(pace.Updates(kNow), AdmissionPace::kUnbounded);
  pace.NoteGroup(absl::Seconds(1));
  EXPECT_EQ(pace.Updates(kNow), AdmissionPace::kUnbounded);
  // A trainer that takes no time: virtual time, or one that only ever waits.
  pace.NoteStep(absl::Seconds(1), /*idle=*/1, kNow);
  EXPECT_EQ(pace.Updates(kNow), AdmissionPace::kUnbounded);
}

TEST(AdmissionPaceTest, AGroupBeginsAsManyUpdatesAheadAsItTakes) {
  for (const auto& [group, updates] : {std::pair(0.2, 1), {0.99, 1}, {1.5, 2}, {7.2, 8}}) {
    AdmissionPace pace;
    for (int i = 0; i < 100; ++i) pace.NoteGroup(absl::Seconds(group));
    // Two seconds, of which the trainer waited for one.
    for (int i = 0; i < 30; ++i) pace.NoteStep(absl::Seconds(2), 0.5, kNow);
    EXPECT_EQ(pace.Updates(kNow), static_cast<uint64_t>(updates)) << group;
  }
}

TEST(AdmissionPaceTest, AdmitsEarlyEnoughForSlowGroups) {
  AdmissionPace pace;
  // Mean 1.2, standard deviation 0.6: two of these above it is 2.4.
  for (int i = 0; i < 2000; ++i) pace.NoteGroup(absl::Seconds(i % 5 == 0 ? 2.4 : 0.9));
  pace.NoteStep(absl::Seconds(1), 0, kNow);
  EXPECT_EQ(pace.Updates(kNow), 3u);
}

TEST(AdmissionPaceTest, WidensOnlyIfHoldingBackMadeTheTrainerWait) {
  AdmissionPace pace;
  for (int i = 0; i < 10; ++i) pace.NoteGroup(absl::Seconds(0.5));
  pace.NoteStep(absl::Seconds(1), 0, kNow);
  ASSERT_EQ(pace.Updates(kNow), 1u);
  // The trainer waits, and nothing was held back: rollouts are as fast as they can be.
  for (int i = 0; i < 5; ++i) pace.NoteStep(absl::Seconds(1.25), 0.2, kNow);
  EXPECT_EQ(pace.Updates(kNow), 1u);
  for (int i = 0; i < 2; ++i) {
    pace.NoteHeldBack();
    pace.NoteStep(absl::Seconds(1.25), 0.2, kNow);
  }
  EXPECT_EQ(pace.Updates(kNow), 2u);
  // Held back, and the trainer never waits: less would do.
  for (int i = 0; i < 100; ++i) {
    pace.NoteHeldBack();
    pace.NoteStep(absl::Seconds(1), 0, kNow);
  }
  EXPECT_EQ(pace.Updates(kNow), 1u);
}

TEST(AdmissionPaceTest, IsUnboundedWhileTheTrainerIsHeldUp) {
  AdmissionPace pace;
  pace.NoteGroup(absl::Seconds(1));
  pace.NoteStep(absl::Seconds(2), 0, kNow);
  EXPECT_EQ(pace.Updates(kNow + absl::Seconds(5)), 1u);
  EXPECT_EQ(pace.Updates(kNow + absl::Seconds(7)), AdmissionPace::kUnbounded);
  // A step of one second after steps of milliseconds is not held up either.
  AdmissionPace fast;
  fast.NoteGroup(absl::Milliseconds(1));
  fast.NoteStep(absl::Milliseconds(20), 0, kNow);
  EXPECT_EQ(fast.Updates(kNow + absl::Seconds(1)), 1u);
  EXPECT_EQ(fast.Updates(kNow + absl::Seconds(3)), AdmissionPace::kUnbounded);
  // Long steps are long, and not held up.
  for (int i = 0; i < 50; ++i) pace.NoteStep(absl::Seconds(60), 0, kNow);
  EXPECT_EQ(pace.Updates(kNow + absl::Seconds(170)), 1u);
  EXPECT_EQ(pace.Updates(kNow + absl::Seconds(190)), AdmissionPace::kUnbounded);
}

}  // namespace
}  // namespace baton::controller
