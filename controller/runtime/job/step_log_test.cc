#include "controller/runtime/job/step_log.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::Optional;

constexpr auto kNoLine = std::nullopt;

TEST(StepLogTest, OneStepASecondAtMostAndTheNextLineNamesTheOthers) {
  StepLog log;
  absl::Time now = absl::UnixEpoch();
  EXPECT_THAT(log.TakeStep(1, "step 1", now), Optional(std::string("step 1")));
  now += absl::Milliseconds(400);
  EXPECT_EQ(log.TakeStep(2, "step 2", now), kNoLine);
  now += absl::Milliseconds(599);
  EXPECT_EQ(log.TakeStep(3, "step 3", now), kNoLine);
  now += absl::Milliseconds(1);
  EXPECT_THAT(log.TakeStep(4, "step 4", now),
              Optional(std::string("step 4 (before it steps 2 to 3, without lines of their own)")));
  EXPECT_EQ(log.TakeOther("checkpoint"), "checkpoint");
  EXPECT_EQ(log.TakeStep(5, "step 5", now), kNoLine);
  EXPECT_EQ(log.TakeOther("state SUCCEEDED"),
            "state SUCCEEDED (before it step 5, without a line of its own)");
  EXPECT_EQ(log.TakeOther("more"), "more");
}

// As a fast job that saves and evaluates after every step.
TEST(StepLogTest, OtherEventsBetweenThemDoNotLetMoreStepsThrough) {
  StepLog log;
  std::vector<absl::Time> steps;
  int64_t named = 0;
  for (int64_t step = 1; step <= 1000; ++step) {
    const absl::Time now = absl::UnixEpoch() + step * absl::Milliseconds(7);
    if (log.TakeStep(step, "step", now).has_value()) steps.push_back(now);
    named += log.TakeOther("checkpoint") == "checkpoint" ? 0 : 1;
  }
  ASSERT_EQ(steps.size(), 7u);  // in 7 s
  for (size_t i = 1; i < steps.size(); ++i) EXPECT_GE(steps[i] - steps[i - 1], absl::Seconds(1));
  EXPECT_EQ(named, 1000 - 7);  // each other step is named
}

TEST(StepLogTest, SlowStepsAreAllThere) {
  StepLog log;
  for (int64_t step = 1; step <= 3; ++step) {
    const std::string line = std::to_string(step);
    EXPECT_THAT(log.TakeStep(step, line, absl::FromUnixSeconds(step)), Optional(line));
  }
}

}  // namespace
}  // namespace baton::controller
