#include "sdk/planner/placement/calibration.h"

#include "gtest/gtest.h"

namespace baton::placement {
namespace {

Recording MakeRecording() {
  Recording r;
  r.actor = *FindModel("qwen2.5-0.5b");
  r.workload.generated = r.workload.sequences = 64;
  r.workload.mini_batch = 16;
  r.training.data = 2;
  r.rollouts.data = 4;
  r.kv_bytes = 8e9;
  return r;
}

TEST(Calibrate, ScalesToTheMedianOfWhatWasRecorded) {
  Recording r = MakeRecording();
  Setting plain;
  plain.device = *FindDevice("h100");
  plain.workload = r.workload;
  const double training = TrainingSeconds(plain, r.actor, r.training);
  const double generation = SimulateGeneration(plain, r.actor, r.rollouts, 8e9).seconds;
  r.training_seconds = {90 * training, 3 * training, 2 * training, 4 * training, 3 * training};
  r.generation_seconds = {7 * generation};
  const Calibration c = Calibrate(plain.device, r);
  EXPECT_DOUBLE_EQ(c.training, 3);
  EXPECT_DOUBLE_EQ(c.scoring, 3);
  EXPECT_DOUBLE_EQ(c.generation, 7);
  // The job itself is then predicted as it was.
  plain.calibration = c;
  EXPECT_DOUBLE_EQ(TrainingSeconds(plain, r.actor, r.training), 3 * training);
}

TEST(Calibrate, LeavesUnrecordedFactorsAtOne) {
  const Calibration c = Calibrate(*FindDevice("h100"), MakeRecording());
  EXPECT_DOUBLE_EQ(c.training, 1);
  EXPECT_DOUBLE_EQ(c.scoring, 1);
  EXPECT_DOUBLE_EQ(c.generation, 1);
}

TEST(Median, TakesTheLowerMiddleValue) {
  EXPECT_EQ(Median({}), 0);
  EXPECT_EQ(Median({5, 1, 9}), 5);
  EXPECT_EQ(Median({4, 1, 9, 5}), 4);
}

}  // namespace
}  // namespace baton::placement
