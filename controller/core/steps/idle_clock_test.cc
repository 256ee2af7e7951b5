#include "controller/core/steps/idle_clock.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::DoubleEq;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

const absl::Time kOrigin = absl::FromUnixSeconds(1000);

absl::Time At(int seconds) { return kOrigin + absl::Seconds(seconds); }

TEST(IdleClockTest, SharesAreOfTheTimeAndOfAllRolloutsTogether) {
  IdleClock clock;
  clock.Advance(At(0));
  clock.Note({true, /*trainer_idle=*/true, /*rollouts=*/2, /*loading=*/1, /*resting=*/1});
  clock.Advance(At(1));
  clock.Note({true, true, 2, 0, 1});
  clock.Advance(At(4));
  clock.Note({true, false, 4, 0, 0});  // two more came
  clock.Advance(At(10));
  // The trainer: 4 of 10 s. Rollouts: 2 x 4 s + 4 x 6 s = 32 s, of which 1 s of loading, and
  // 1 + 3 s of rest.
  EXPECT_THAT(clock.Shares(),
              UnorderedElementsAre(Pair("idle/trainer", DoubleEq(0.4)),
                                   Pair("idle/rollouts", DoubleEq(5.0 / 32)),
                                   Pair("idle/rollouts_loading", DoubleEq(1.0 / 32))));
  EXPECT_EQ(clock.trainer_idle(), absl::Seconds(4));
  EXPECT_EQ(clock.trainer_busy(), absl::Seconds(6));
}

TEST(IdleClockTest, AStepCountsFromTheEndOfTheOneBefore) {
  IdleClock clock;
  clock.Advance(At(0));
  clock.Note({true, true, 1, 0, 1});
  clock.Advance(At(5));
  clock.BeginStep();
  EXPECT_THAT(clock.Shares(), IsEmpty()) << "no time has passed yet";
  clock.Note({true, false, 1, 0, 0});
  clock.Advance(At(6));
  EXPECT_EQ(clock.Shares().at("idle/trainer"), 0);
  EXPECT_EQ(clock.Shares().at("idle/rollouts"), 0);
}

TEST(IdleClockTest, ThePauseOfAJobIsNoIdleTime) {
  IdleClock clock;
  clock.Advance(At(0));
  clock.Note({true, true, 1, 0, 1});
  clock.Advance(At(1));
  clock.Note({});
  clock.Advance(At(1000));
  clock.Note({true, false, 1, 0, 0});
  clock.Advance(At(1003));
  EXPECT_DOUBLE_EQ(clock.Shares().at("idle/trainer"), 0.25);
  EXPECT_EQ(clock.trainer_busy(), absl::Seconds(3));
  EXPECT_DOUBLE_EQ(clock.Shares().at("idle/rollouts"), 0.25);
}

TEST(IdleClockTest, WithoutRolloutsTheTrainerAloneHasAShare) {
  IdleClock clock;
  clock.Advance(At(0));
  clock.Note({true, true, 0, 0, 0});
  clock.Advance(At(1));
  EXPECT_THAT(clock.Shares(), UnorderedElementsAre(Pair("idle/trainer", 1.0)));
}

TEST(IdleClockTest, AClockThatGoesBackAddsNothing) {
  IdleClock clock;
  clock.Advance(At(10));
  clock.Note({true, true, 1, 0, 1});
  clock.Advance(At(4));
  clock.Advance(At(10));
  EXPECT_THAT(clock.Shares(), IsEmpty());
  clock.Advance(At(12));
  EXPECT_DOUBLE_EQ(clock.Shares().at("idle/trainer"), 1);
}

}  // namespace
}  // namespace baton::controller
