#include "controller/core/job/straggler_detector.h"

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

class StragglerDetectorTest : public ::testing::Test {
 protected:
  // A phase in which worker i needs seconds[i] per unit, with some outliers.
  std::optional<StragglerDetector::Slow> Phase(const std::vector<double>& seconds) {
    for (size_t i = 0; i < seconds.size(); ++i) {
      const std::string worker = "w" + std::to_string(i);
      for (const double jitter : {0.9, 1.0, 1.1, 1.05, 30.0}) {
        detector_.Add(worker, seconds[i] * jitter);
      }
    }
    now_ += absl::Seconds(7);
    return detector_.EndPhase(now_);
  }

  StragglerDetector detector_{StragglerOptions()};
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(StragglerDetectorTest, ReportsAStragglerAfterFivePhasesAndThirtySeconds) {
  for (int phase = 1; phase <= 5; ++phase) EXPECT_FALSE(Phase({1, 1.2, 0.9, 4}).has_value());
  const auto slow = Phase({1, 1.2, 0.9, 4});  // 35 s after the first
  ASSERT_TRUE(slow.has_value());
  EXPECT_EQ(slow->worker, "w3");
  EXPECT_DOUBLE_EQ(slow->seconds, 4 * 1.05);
  EXPECT_DOUBLE_EQ(slow->peers, 1.05);
  EXPECT_EQ(slow->since, absl::Seconds(35));
  EXPECT_FALSE(Phase({1, 1.2, 0.9, 4}).has_value());  // it was forgotten: all begins anew
}

TEST_F(StragglerDetectorTest, OneNormalPhaseResetsTheCount) {
  for (int phase = 0; phase < 5; ++phase) EXPECT_FALSE(Phase({1, 1, 4}).has_value());
  EXPECT_FALSE(Phase({1, 1, 2.4}).has_value());
  for (int phase = 0; phase < 5; ++phase) EXPECT_FALSE(Phase({1, 1, 4}).has_value());
  EXPECT_TRUE(Phase({1, 1, 4}).has_value());
}

TEST_F(StragglerDetectorTest, TwoWorkersCanBeToldApart) {
  std::optional<StragglerDetector::Slow> slow;
  for (int phase = 0; phase < 6; ++phase) slow = Phase({3, 1});
  ASSERT_TRUE(slow.has_value());
  EXPECT_EQ(slow->worker, "w0");
}

TEST_F(StragglerDetectorTest, ReportsNoStragglerIfAllSpeedsDiffer) {
  for (int phase = 0; phase < 20; ++phase) {
    EXPECT_FALSE(Phase({1, 2, 3, 4, 6, 9}).has_value());
  }
}

TEST_F(StragglerDetectorTest, NeverReportsASingleWorker) {
  for (int phase = 0; phase < 20; ++phase) EXPECT_FALSE(Phase({100}).has_value());
}

TEST_F(StragglerDetectorTest, IgnoresWorkersWithFewSamples) {
  for (int phase = 0; phase < 20; ++phase) {
    for (int i = 0; i < 3; ++i) detector_.Add("a", 1);
    for (int i = 0; i < 2; ++i) detector_.Add("b", 100);
    now_ += absl::Seconds(7);
    EXPECT_FALSE(detector_.EndPhase(now_).has_value());
  }
}

}  // namespace
}  // namespace baton::controller
