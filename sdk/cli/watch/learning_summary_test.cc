#include "sdk/cli/watch/learning_summary.h"

#include <string>

#include "gtest/gtest.h"

namespace baton::cli {
namespace {

void Add(v1::ListMetricsResponse* metrics, int64_t step, const std::string& name, double value) {
  v1::StepMetrics& row = *metrics->add_steps();
  row.set_step(step);
  (*row.mutable_metrics())[name] = value;
}

TEST(LearningSummaryTest, ComparesTheMeansOfTheFirstAndTheLastTenSteps) {
  v1::ListMetricsResponse metrics;
  for (int step = 1; step <= 200; ++step) Add(&metrics, step, "critic/score/mean", step / 200.0);
  // By hand: (1 + … + 10) / 10 / 200 = 0.0275, and (191 + … + 200) / 10 / 200 = 0.9775.
  EXPECT_EQ(LearningSummary(metrics, 200),
            "reward 0.028 → 0.978: the mean of the first 10 and of the last 10 of 200 steps\n");
}

TEST(LearningSummaryTest, ComparesFewerStepsOfAShortJob) {
  v1::ListMetricsResponse metrics;
  for (int step = 1; step <= 12; ++step) Add(&metrics, step, "critic/score/mean", step);
  EXPECT_EQ(LearningSummary(metrics, 200),
            "reward 1.500 → 11.500: the mean of the first 2 and of the last 2 of 12 steps\n");
  metrics.mutable_steps()->DeleteSubrange(3, 9);
  EXPECT_EQ(LearningSummary(metrics, 200), "reward 1 → 3: step 1 and step 3\n");
  metrics.mutable_steps()->DeleteSubrange(1, 2);
  EXPECT_EQ(LearningSummary(metrics, 200), "");
}

TEST(LearningSummaryTest, SummarisesTheLossOfAJobWithoutRewards) {
  v1::ListMetricsResponse metrics;
  Add(&metrics, 0, "val/loss", 3);
  Add(&metrics, 1, "train/loss", 2.5);
  Add(&metrics, 2, "train/loss", 0.5);
  Add(&metrics, 2, "val/loss", 0.75);
  EXPECT_EQ(LearningSummary(metrics, 200),
            "loss 2.500 → 0.500: step 1 and step 2\nval/loss 3 → 0.750: step 0 and step 2\n");
}

TEST(LearningSummaryTest, EvaluationsAreComparedOneWithOne) {
  v1::ListMetricsResponse metrics;
  Add(&metrics, 100, "val/accuracy", 0.25);
  for (int step = 101; step <= 130; ++step) Add(&metrics, step, "train/loss", 1);
  Add(&metrics, 130, "val/accuracy", 1);
  // The loss is of no interest where there are rewards.
  Add(&metrics, 130, "critic/score/mean", 1);
  EXPECT_EQ(LearningSummary(metrics, 200), "val/accuracy 0.250 → 1: step 100 and step 130\n");
}

TEST(LearningSummaryTest, StepsThatWereLostDoNotCount) {
  v1::ListMetricsResponse metrics;
  for (int step = 1; step <= 12; ++step) Add(&metrics, step, "critic/score/mean", step);
  EXPECT_EQ(LearningSummary(metrics, 3), "reward 1 → 3: step 1 and step 3\n");
}

TEST(LearningSummaryTest, SaysIfNotAllStepsOfALongJobAreKept) {
  v1::ListMetricsResponse metrics;
  for (int step = 4; step <= 40; step += 4) Add(&metrics, step, "critic/score/mean", step);
  EXPECT_EQ(
      LearningSummary(metrics, 40),
      "reward 6 → 38: the mean of the first 2 and of the last 2 of 10 steps whose metrics are "
      "kept\n");
}

}  // namespace
}  // namespace baton::cli
