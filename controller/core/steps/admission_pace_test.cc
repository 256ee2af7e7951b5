#include "controller/core/steps/admission_pace.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;

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

TEST(AdmissionPaceTest, NothingBeginsAheadUntilAStepIsMeasured) {
  AdmissionPace pace;
  EXPECT_EQ(pace.Updates(kNow), 0u);
  pace.NoteGroup(absl::Seconds(9));
  EXPECT_EQ(pace.Updates(kNow + absl::Hours(1)), 0u) << "however long the update takes";
  // Four seconds of work after a wait.
  pace.NoteStep(absl::Seconds(4), absl::Seconds(9), kNow);
  EXPECT_EQ(pace.Updates(kNow), 3u) << "9 / 4, rounded up";
}

TEST(AdmissionPaceTest, AStepThatBeganUnderAnEarlierControllerIsNotMeasured) {
  AdmissionPace pace;
  pace.NoteGroup(absl::Seconds(9));
  pace.NoteRestoredUpdate();
  pace.NoteStep(absl::Milliseconds(1), absl::ZeroDuration(), kNow);  // the last of many
  EXPECT_FALSE(pace.measured());
  EXPECT_EQ(pace.Updates(kNow), 0u);
  pace.NoteStep(absl::Seconds(4), absl::ZeroDuration(), kNow);
  EXPECT_TRUE(pace.measured());
  EXPECT_EQ(pace.Updates(kNow), 3u);
}

TEST(AdmissionPaceTest, HoldsNothingBackForATrainerThatTakesNoTime) {
  AdmissionPace pace;
  pace.NoteStep(absl::ZeroDuration(), absl::Seconds(1), kNow);
  EXPECT_EQ(pace.Updates(kNow), 1u) << "no group is measured";
  pace.NoteGroup(absl::Seconds(1));
  EXPECT_EQ(pace.Updates(kNow), AdmissionPace::kUnbounded);
}

TEST(AdmissionPaceTest, AGroupBeginsAsManyUpdatesAheadAsItTakes) {
  for (const auto& [group, updates] :
       {std::pair(0.17, 0), {0.2, 1}, {0.99, 1}, {1.5, 2}, {7.2, 8}}) {
    AdmissionPace pace;
    for (int i = 0; i < 100; ++i) pace.NoteGroup(absl::Seconds(group));
    // Two seconds, of which the trainer waited for one.
    for (int i = 0; i < 30; ++i) pace.NoteStep(absl::Seconds(1), absl::Seconds(1), kNow);
    EXPECT_EQ(pace.Updates(kNow), static_cast<uint64_t>(updates)) << group;
  }
}

TEST(AdmissionPaceTest, AdmitsEarlyEnoughForSlowGroups) {
  AdmissionPace pace;
  // Mean 1.2, standard deviation 0.6: two of these above it is 2.4.
  for (int i = 0; i < 2000; ++i) pace.NoteGroup(absl::Seconds(i % 5 == 0 ? 2.4 : 0.9));
  pace.NoteStep(absl::Seconds(1), absl::ZeroDuration(), kNow);
  EXPECT_EQ(pace.Updates(kNow), 3u);
}

TEST(AdmissionPaceTest, WidensOnlyIfHoldingBackMadeTheTrainerWait) {
  AdmissionPace pace;
  for (int i = 0; i < 10; ++i) pace.NoteGroup(absl::Seconds(0.5));
  const auto note_step = [&](double idle) {
    pace.NoteStep(absl::Seconds(1), absl::Seconds(idle), kNow);
  };
  // The batches of the first two steps began before a step was measured.
  for (int i = 0; i < 2; ++i) {
    pace.NoteHeldBack();
    note_step(5);
    ASSERT_EQ(pace.Updates(kNow), 1u);
  }
  // The trainer waits, and nothing was held back: rollouts are as fast as they can be.
  for (int i = 0; i < 5; ++i) note_step(0.25);
  EXPECT_EQ(pace.Updates(kNow), 1u);
  for (int i = 0; i < 7; ++i) {
    ASSERT_EQ(pace.Updates(kNow), 1u) << i;
    pace.NoteHeldBack();
    note_step(0.25);
  }
  EXPECT_EQ(pace.Updates(kNow), 2u) << "0.5 by the estimate, 0.5, and most of the 0.5 before";
  // Held back, and the trainer never waits: less would do.
  for (int i = 0; i < 100; ++i) {
    pace.NoteHeldBack();
    note_step(0);
  }
  EXPECT_EQ(pace.Updates(kNow), 1u);
}

// Groups that take 2.5 steps because too many are under way at once. A batch is under way for three
// updates: once a further batch was complete in more steps than that, two updates ahead will do.
TEST(AdmissionPaceTest, NarrowsWhenBatchesAreCompleteAnUpdateEarly) {
  AdmissionPace pace;
  pace.NoteGroup(absl::Seconds(2.5));
  const auto note_step = [&](uint64_t more) {
    pace.NoteBatch(more);
    pace.NoteStep(absl::Seconds(1), absl::ZeroDuration(), kNow);
    return pace.Updates(kNow);
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(note_step(2), 3u) << i;
  EXPECT_EQ(note_step(0), 3u) << "this one was just in time: the run is over";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(note_step(1), 3u) << i;
  EXPECT_EQ(note_step(1), 2u) << "ceil(2.5 - 1)";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(note_step(1), 2u) << "the run counts anew: " << i;
  EXPECT_EQ(note_step(1), 1u);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(note_step(1), 1u) << "and never less: " << i;
}

TEST(AdmissionPaceTest, IsUnboundedWhileTheTrainerIsHeldUp) {
  AdmissionPace pace;
  pace.NoteGroup(absl::Seconds(1));
  pace.NoteStep(absl::Seconds(2), absl::ZeroDuration(), kNow);
  EXPECT_EQ(pace.Updates(kNow + absl::Seconds(8)), 1u) << "3 · (1 + 2)";
  EXPECT_EQ(pace.Updates(kNow + absl::Seconds(10)), AdmissionPace::kUnbounded);
  // A step of one second after steps of milliseconds is not held up either.
  AdmissionPace fast;
  fast.NoteGroup(absl::Milliseconds(1));
  fast.NoteStep(absl::Milliseconds(20), absl::ZeroDuration(), kNow);
  EXPECT_EQ(fast.Updates(kNow + absl::Seconds(1)), 0u);
  EXPECT_EQ(fast.Updates(kNow + absl::Seconds(3)), AdmissionPace::kUnbounded);
  // Long steps are long, and not held up.
  for (int i = 0; i < 50; ++i) pace.NoteStep(absl::Seconds(60), absl::ZeroDuration(), kNow);
  EXPECT_EQ(pace.Updates(kNow + absl::Seconds(170)), 0u);
  EXPECT_EQ(pace.Updates(kNow + absl::Seconds(190)), AdmissionPace::kUnbounded);
}

// A trainer that takes 40 s for an update, and rollouts that make any number of groups at once in
// `group` seconds each, second by second. Weights are numbered by the updates that made them.
struct Timeline {
  static constexpr uint64_t kGroups = 2;  // of a batch
  static constexpr int kUpdate = 40;

  Timeline(int group, int batches) : group(group), batches(batches) {
    for (int now = 0; now < 1000 && static_cast<int>(taken.size()) < batches; ++now) Second(now);
  }

  void Second(int now) {
    const absl::Time time = kNow + absl::Seconds(now);
    if (updating && now == taken.back() + kUpdate) {
      pace.NoteStep(absl::Seconds(kUpdate), absl::Seconds(taken.back() - step_began), time);
      ++weights;
      step_began = now;
      updating = false;
    }
    uint64_t complete = 0;  // and not taken
    for (size_t i = taken.size(); i < began.size(); ++i) {
      if (now == began[i] + group) {
        for (uint64_t g = 0; g < kGroups; ++g) pace.NoteGroup(absl::Seconds(group));
      }
      complete += now >= began[i] + group ? kGroups : 0;
    }
    if (!updating && complete >= kGroups) {
      pace.NoteBatch(complete / kGroups - 1);
      staleness.push_back(weights - made_by[taken.size()]);
      taken.push_back(now);
      updating = true;
    }
    Begin(now, time);
  }

  void Begin(int now, absl::Time time) {
    const auto may_begin = [&](uint64_t bound) {
      const uint64_t spent = taken.size() - (updating ? 1 : 0);
      return MayBegin({bound, kGroups, (began.size() - spent) * kGroups, 0});
    };
    while (may_begin(std::min<uint64_t>(kBound, pace.Updates(time)))) {
      began.push_back(now);
      made_by.push_back(weights);
    }
    if (may_begin(kBound)) pace.NoteHeldBack();
  }

  static constexpr uint64_t kBound = 4;  // schedule.max_staleness
  const int group, batches;
  AdmissionPace pace;
  std::vector<int> began, taken;  // of each batch, in seconds
  std::vector<int> made_by, staleness;
  int weights = 0, step_began = 0;
  bool updating = false;
};

// By hand, with groups of 20 s:
//
//   seconds    0        20           60       80           120          160
//   trainer    wait     update 1 --- wait     update 2 --- update 3 --- update 4 --- ...
//   rollouts   batch 1               batch 2  batch 3      batch 4
//   weights    0                     1        1            2
//
// From the third on each batch is complete 20 s before the trainer takes it, and one update old.
TEST(AdmissionPaceTest, ShortGroupsBeginWithTheUpdateBeforeTheirs) {
  const Timeline line(20, 6);
  EXPECT_THAT(std::vector<int>(line.began.begin(), line.began.begin() + 6),
              ElementsAre(0, 60, 60, 120, 160, 200));
  EXPECT_THAT(line.taken, ElementsAre(20, 80, 120, 160, 200, 240));
  EXPECT_THAT(line.staleness, ElementsAre(0, 0, 1, 1, 1, 1));
}

// By hand, with groups of 5 s:
//
//   seconds    0        5            45       50           90       95
//   trainer    wait     update 1 --- wait     update 2 --- wait     update 3 --- ...
//   rollouts   batch 1               batch 2               batch 3
//   weights    0                     1                     2
//
// The trainer waits for a ninth of each step, and learns from its newest weights.
TEST(AdmissionPaceTest, GroupsThatTakeLittleTimeWaitForTheNewestWeights) {
  const Timeline line(5, 5);
  EXPECT_THAT(std::vector<int>(line.began.begin(), line.began.begin() + 5),
              ElementsAre(0, 45, 90, 135, 180));
  EXPECT_THAT(line.taken, ElementsAre(5, 50, 95, 140, 185));
  EXPECT_THAT(line.staleness, ElementsAre(0, 0, 0, 0, 0));
}

// Rollouts that are given more groups take longer for each. That is no reason for still more.
TEST(AdmissionPaceTest, GroupsThatTakeLongerBecauseMoreAreUnderWayAreNotBegunEarlier) {
  AdmissionPace pace;
  pace.NoteGroup(absl::Seconds(1.5));
  pace.NoteStep(absl::Seconds(1), absl::ZeroDuration(), kNow);
  ASSERT_EQ(pace.Updates(kNow), 2u);
  for (int i = 0; i < 7; ++i) {
    for (int group = 0; group < 1000; ++group) pace.NoteGroup(absl::Seconds(3.5));
    pace.NoteStep(absl::Seconds(1), absl::ZeroDuration(), kNow);
    ASSERT_EQ(pace.Updates(kNow), 2u) << i;
  }
  // Groups that take longer in all of the newest steps do so by themselves.
  pace.NoteStep(absl::Seconds(1), absl::ZeroDuration(), kNow);
  EXPECT_EQ(pace.Updates(kNow), 4u);
}

// All groups of a batch may be filtered; then its step is short, and nearly all of it was a wait.
TEST(AdmissionPaceTest, AStepWithoutWorkWidensNothing) {
  AdmissionPace pace;
  for (int i = 0; i < 10; ++i) pace.NoteGroup(absl::Seconds(0.5));
  for (int i = 0; i < 40; ++i) {
    pace.NoteHeldBack();
    const bool filtered = i % 4 == 3;
    pace.NoteStep(absl::Seconds(filtered ? 0 : 2), absl::Seconds(filtered ? 0.5 : 0.1), kNow);
    ASSERT_LE(pace.Updates(kNow), 1u) << i;
  }
}

// A trainer that waits for less than that share is not kept busier by older responses.
TEST(AdmissionPaceTest, AShortWaitOfTheTrainerWidensNothing) {
  AdmissionPace pace;
  for (int i = 0; i < 10; ++i) pace.NoteGroup(absl::Seconds(0.5));
  for (int i = 0; i < 20; ++i) {
    pace.NoteHeldBack();
    pace.NoteStep(absl::Seconds(1), absl::Seconds(0.17), kNow);
    ASSERT_EQ(pace.Updates(kNow), 1u);
  }
}

// By the estimate the trainer would wait for 9% of a step; it waits for 20%.
TEST(AdmissionPaceTest, BeginsAnUpdateAheadIfTheNewestWeightsCostMoreThanExpected) {
  AdmissionPace pace;
  for (int i = 0; i < 10; ++i) pace.NoteGroup(absl::Seconds(0.1));
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(pace.Updates(kNow), 0u) << i;
    pace.NoteHeldBack();
    pace.NoteStep(absl::Seconds(1), absl::Seconds(0.25), kNow);
  }
  EXPECT_EQ(pace.Updates(kNow), 1u);
}

// By hand, with groups of 100 s: 2.5 updates, so a group begins 3 updates ahead of its batch.
//
//   seconds    0          100        140         240        280        320        360
//   trainer    wait       update 1   wait        update 2   update 3   update 4   update 5
//   begins     batch 1               2, 3, 4, 5             6          7          8
//   weights    0                     1                      2          3          4
//   complete   1: 100                240                    380        420        460
//
// At 140 the pace is known: it makes up for the batches that had not begun. The trainer waits at 0
// and 140, and never again.
TEST(AdmissionPaceTest, LongGroupsBeginAsFarAheadAsTheyTakeOnceThatIsKnown) {
  const Timeline line(100, 8);
  EXPECT_THAT(std::vector<int>(line.began.begin(), line.began.begin() + 8),
              ElementsAre(0, 140, 140, 140, 140, 280, 320, 360));
  EXPECT_THAT(line.taken, ElementsAre(100, 240, 280, 320, 360, 400, 440, 480));
  EXPECT_THAT(line.staleness, ElementsAre(0, 0, 1, 2, 3, 3, 3, 3));
}

}  // namespace
}  // namespace baton::controller
