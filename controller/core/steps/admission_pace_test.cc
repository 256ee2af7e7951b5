#include "controller/core/steps/admission_pace.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::Each;
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

// Steps of one second of work and `idle` seconds of waiting, in which rollouts were held back.
void NoteSteps(int steps, double idle, AdmissionPace& pace) {
  for (int i = 0; i < steps; ++i) {
    pace.NoteHeldBack();
    pace.NoteStep(absl::Seconds(1), absl::Seconds(idle), kNow);
  }
}

TEST(AdmissionPaceTest, NothingBeginsAheadUntilFourStepsAreJudged) {
  AdmissionPace pace;
  EXPECT_EQ(pace.Updates(kNow + absl::Hours(1)), 0u) << "however long the first update takes";
  NoteSteps(4, 1, pace);  // the first is not judged
  EXPECT_FALSE(pace.judged());
  EXPECT_EQ(pace.Updates(kNow), 0u);
  NoteSteps(1, 1, pace);
  EXPECT_TRUE(pace.judged());
  EXPECT_EQ(pace.Updates(kNow), 1u);
}

TEST(AdmissionPaceTest, AStepThatBeganUnderAnEarlierControllerIsNotJudged) {
  AdmissionPace pace;
  pace.NoteRestoredUpdate();
  pace.NoteStep(absl::Seconds(1), absl::Hours(1), kNow);
  EXPECT_EQ(pace.Updates(kNow + absl::Hours(1)), 0u) << "and says nothing of how long steps take";
  NoteSteps(4, 1, pace);
  EXPECT_FALSE(pace.judged());
  NoteSteps(1, 1, pace);
  EXPECT_EQ(pace.Updates(kNow), 1u);
}

TEST(AdmissionPaceTest, AnUpdateMoreStaysIfStepsAreATenthShorterThanThoseBeforeAndAfter) {
  // 1.8 = 0.9 · 2. The trainer still waits for more than 15%, so the next one is tried.
  for (const auto& [idle, pays] : {std::pair(0.79, true), {0.81, false}}) {
    AdmissionPace pace;
    NoteSteps(5, 1, pace);
    NoteSteps(2, 50, pace);  // not judged: their batches had begun before
    NoteSteps(3, idle, pace);
    ASSERT_EQ(pace.Updates(kNow), 1u);
    NoteSteps(1, idle, pace);
    ASSERT_EQ(pace.Updates(kNow), 0u);
    NoteSteps(1, 50, pace);  // not judged
    NoteSteps(4, 1, pace);
    EXPECT_EQ(pace.Updates(kNow), pays ? 1u : 0u) << idle;
    NoteSteps(2 + 4, idle, pace);
    EXPECT_EQ(pace.Updates(kNow), pays ? 2u : 0u) << idle;
  }
}

// Responses become shorter as the job learns, whatever the pace.
TEST(AdmissionPaceTest, StepsThatBecomeShorterByThemselvesAreNoGain) {
  AdmissionPace pace;
  for (int i = 0; i < 200; ++i) {
    NoteSteps(1, 1 + 20 * std::pow(0.95, i), pace);
    EXPECT_LE(pace.Updates(kNow), 1u) << i;
  }
  EXPECT_EQ(pace.Updates(kNow), 0u);
}

TEST(AdmissionPaceTest, TriesAgainWhatDidNotPayLaterEachTime) {
  AdmissionPace pace;
  NoteSteps(5, 1, pace);
  std::vector<int> steps;  // at 0, between the trials
  for (int trial = 0; trial < 5; ++trial) {
    ASSERT_EQ(pace.Updates(kNow), 1u);
    NoteSteps(6, 1, pace);
    ASSERT_EQ(pace.Updates(kNow), 0u);
    for (steps.push_back(0); pace.Updates(kNow) == 0 && steps.back() < 1000; ++steps.back()) {
      NoteSteps(1, 1, pace);
    }
  }
  // One that is not judged, and 8, 16, 32, 64 and 64 times four.
  EXPECT_THAT(steps, ElementsAre(33, 65, 129, 257, 257));
}

TEST(AdmissionPaceTest, AShortWaitOfTheTrainerChangesNothing) {
  AdmissionPace pace;
  NoteSteps(100, 0.17, pace);  // 14.5%
  EXPECT_EQ(pace.Updates(kNow), 0u);
}

TEST(AdmissionPaceTest, AWaitOfTheTrainerChangesNothingIfNothingWasHeldBack) {
  AdmissionPace pace;
  for (int i = 0; i < 100; ++i) pace.NoteStep(absl::Seconds(1), absl::Seconds(5), kNow);
  EXPECT_EQ(pace.Updates(kNow), 0u) << "rollouts are as fast as they can be";
}

// All groups of a batch may be filtered; then its step is short, and nearly all of it was a wait.
TEST(AdmissionPaceTest, AStepWithoutWorkChangesNothing) {
  AdmissionPace pace;
  for (int i = 0; i < 100; ++i) {
    pace.NoteHeldBack();
    const bool filtered = i % 4 == 3;
    pace.NoteStep(absl::Seconds(filtered ? 0 : 2), absl::Seconds(filtered ? 0.5 : 0.1), kNow);
    ASSERT_EQ(pace.Updates(kNow), 0u) << i;
  }
}

TEST(AdmissionPaceTest, IsUnboundedWhileTheTrainerIsHeldUp) {
  AdmissionPace pace;
  pace.NoteStep(absl::Seconds(2), absl::Seconds(1), kNow);
  EXPECT_EQ(pace.Updates(kNow + absl::Seconds(8)), 0u) << "3 · (1 + 2)";
  EXPECT_EQ(pace.Updates(kNow + absl::Seconds(10)), AdmissionPace::kUnbounded);
  // A step of one second after steps of milliseconds is not held up either.
  AdmissionPace fast;
  fast.NoteStep(absl::Milliseconds(20), absl::ZeroDuration(), kNow);
  EXPECT_EQ(fast.Updates(kNow + absl::Seconds(1)), 0u);
  EXPECT_EQ(fast.Updates(kNow + absl::Seconds(3)), AdmissionPace::kUnbounded);
  // Long steps are long, and not held up.
  for (int i = 0; i < 50; ++i) pace.NoteStep(absl::Seconds(60), absl::ZeroDuration(), kNow);
  EXPECT_EQ(pace.Updates(kNow + absl::Seconds(170)), 0u);
  EXPECT_EQ(pace.Updates(kNow + absl::Seconds(190)), AdmissionPace::kUnbounded);
}

// A trainer that takes 40 s for an update, and rollouts, second by second. Weights are numbered by
// the updates that made them.
struct Timeline {
  static constexpr uint64_t kGroups = 2;  // of a batch
  static constexpr int kUpdate = 40;
  static constexpr uint64_t kBound = 4;  // schedule.max_staleness

  /// A batch takes `seconds`, beside any others, or, if `one_by_one`, after them.
  Timeline(int seconds, bool one_by_one, int batches) : seconds(seconds), one_by_one(one_by_one) {
    for (int now = 0; now < 100'000 && static_cast<int>(taken.size()) < batches; ++now) Second(now);
  }

  void Second(int now) {
    const absl::Time time = kNow + absl::Seconds(now);
    if (updating && now == taken.back() + kUpdate) {
      pace.NoteStep(absl::Seconds(kUpdate), absl::Seconds(taken.back() - step_began), time);
      ++weights;
      step_began = now;
      updating = false;
    }
    if (!updating && complete.size() > taken.size() && now >= complete[taken.size()]) {
      staleness.push_back(weights - made_by[taken.size()]);
      taken.push_back(now);
      updating = true;
    }
    Begin(now, time);
  }

  void Begin(int now, absl::Time time) {
    const auto may_begin = [&](uint64_t bound) {
      const uint64_t spent = taken.size() - (updating ? 1 : 0);
      return MayBegin({bound, kGroups, (complete.size() - spent) * kGroups, 0});
    };
    while (may_begin(std::min<uint64_t>(kBound, pace.Updates(time)))) {
      const int free = one_by_one && !complete.empty() ? std::max(now, complete.back()) : now;
      complete.push_back(free + seconds);
      made_by.push_back(weights);
    }
    if (may_begin(kBound)) pace.NoteHeldBack();
  }

  // From the `first` batch on, counted from 0.
  double SecondsOfStep(size_t first) const {
    return static_cast<double>(taken.back() - taken[first]) /
           static_cast<double>(taken.size() - 1 - first);
  }
  double StalenessFrom(size_t first) const {
    return static_cast<double>(
               std::accumulate(staleness.begin() + static_cast<int>(first), staleness.end(), 0)) /
           static_cast<double>(staleness.size() - first);
  }

  const int seconds;
  const bool one_by_one;
  AdmissionPace pace;
  std::vector<int> complete, taken;  // of each batch, in seconds
  std::vector<int> made_by, staleness;
  int weights = 0, step_began = 0;
  bool updating = false;
};

// By hand, with batches of 20 s:
//
//   seconds    0        20           60         260          300        320        360        400
//   trainer    wait     update 1 --- wait   ... update 5 --- wait       update 6   update 7   ...
//   begins     batch 1               batch 2                 6, 7                  batch 8    batch
//   9 weights    0                     1                       5                     6          7
//
// Step 1 is not judged, and steps 2 to 5 are. From the seventh on, batches are one update old, and
// the trainer never waits. Steps 8 to 11 are judged, and then 13 to 16, with fresh batches again.
TEST(AdmissionPaceTest, BatchesBeginWithTheUpdateBeforeTheirsOnceThatHasPaid) {
  const Timeline line(20, false, 20);
  EXPECT_THAT(line.taken, ElementsAre(20, 80, 140, 200, 260, 320, 360, 400, 440, 480, 520, 560, 620,
                                      680, 740, 800, 860, 900, 940, 980));
  EXPECT_THAT(line.staleness,
              ElementsAre(0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1));
}

// The trainer waits for a ninth of each step, and learns from its newest weights.
TEST(AdmissionPaceTest, BatchesThatTakeLittleTimeWaitForTheNewestWeights) {
  const Timeline line(5, false, 100);
  EXPECT_THAT(line.staleness, Each(0));
  EXPECT_EQ(line.SecondsOfStep(0), 45);
}

// Batches of 100 s, as many at once as are begun: with two updates ahead a step takes 140 / 3 s,
// and with three 40 s. From 46.7 to 40 is a seventh less.
TEST(AdmissionPaceTest, LongBatchesBeginAsFarAheadAsMakesStepsShorter) {
  const Timeline line(100, false, 120);
  EXPECT_LE(line.SecondsOfStep(60), 50);
  EXPECT_GE(line.StalenessFrom(60), 1.5);
  EXPECT_LE(line.StalenessFrom(60), 3);
}

// Rollouts that make one batch after the other, each in 50 s. An update ahead makes 50 s of a step
// that took 90; a second one would make nothing shorter, whatever the bound, and the trainer waits
// for a fifth of each step.
TEST(AdmissionPaceTest, NoUpdateIsAddedThatMakesNoStepShorter) {
  const Timeline line(50, true, 400);
  EXPECT_LE(line.SecondsOfStep(20), 55);
  EXPECT_LE(line.StalenessFrom(20), 1.15) << "a little more than 1: it is tried again now and then";
  EXPECT_LE(*std::max_element(line.staleness.begin(), line.staleness.end()), 2);
}

// A batch takes 30 s at first, and 4 s later: what paid then pays no longer.
TEST(AdmissionPaceTest, AnUpdateLessIsTriedNowAndThen) {
  AdmissionPace pace;
  NoteSteps(5, 1, pace);
  NoteSteps(6, 0, pace);  // half as long
  NoteSteps(5, 1, pace);
  ASSERT_EQ(pace.Updates(kNow), 1u);
  int steps = 0;
  for (; pace.Updates(kNow) == 1 && steps < 1000; ++steps) NoteSteps(1, 0, pace);
  EXPECT_EQ(steps, 2 + 32) << "eight judgements";
  NoteSteps(1 + 4, 0.1, pace);
  EXPECT_EQ(pace.Updates(kNow), 0u) << "a tenth longer, and an update fresher";
  NoteSteps(100, 0.1, pace);
  EXPECT_EQ(pace.Updates(kNow), 0u);
}

TEST(AdmissionPaceTest, AnUpdateLessThatMakesStepsLongerIsTakenBack) {
  for (const auto& [idle_after, updates] : {std::pair(0.0, 1), {0.2, 0}}) {
    AdmissionPace pace;
    NoteSteps(5, 1, pace);
    NoteSteps(6, 0, pace);
    NoteSteps(5, 1, pace);
    NoteSteps(2 + 32, 0, pace);
    ASSERT_EQ(pace.Updates(kNow), 0u);
    NoteSteps(1 + 4, 0.2, pace);
    ASSERT_EQ(pace.Updates(kNow), 1u) << "for a second look";
    NoteSteps(2 + 4, idle_after, pace);
    EXPECT_EQ(pace.Updates(kNow), static_cast<uint64_t>(updates)) << idle_after;
    if (updates == 0) continue;
    int steps = 0;
    for (; pace.Updates(kNow) == 1 && steps < 1000; ++steps) NoteSteps(1, 0, pace);
    EXPECT_EQ(steps, 32) << "eight judgements after the first failure";
  }
}

}  // namespace
}  // namespace baton::controller
