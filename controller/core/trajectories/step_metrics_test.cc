#include "controller/core/trajectories/step_metrics.h"

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

TrajectoryInfo Response(v1::Purpose purpose, uint64_t prompt_index, uint32_t sample, double reward,
                        uint32_t tokens) {
  TrajectoryInfo trajectory;
  trajectory.id = TrajectoryId(purpose, prompt_index, sample, 2);
  trajectory.purpose = purpose;
  trajectory.prompt_index = prompt_index;
  trajectory.prompt_id = prompt_index;
  trajectory.sample = sample;
  trajectory.scores["reward"] = reward;
  trajectory.tokens = tokens;
  trajectory.prompt_tokens = 5;
  trajectory.finish_reason = "stop";
  return trajectory;
}

std::map<uint64_t, TrajectoryInfo> Of(std::initializer_list<TrajectoryInfo> all) {
  std::map<uint64_t, TrajectoryInfo> out;
  for (const TrajectoryInfo& one : all) out[one.id] = one;
  return out;
}

// Rewards 1, 3 and one that failed; lengths 10, 20, 40. A baseline is left out.
TEST(StepMetricsTest, AResponseWithoutARewardCountsForLengthsAlone) {
  TrajectoryInfo failed = Response(v1::PURPOSE_TRAIN, 1, 0, 100, 40);
  failed.failed = 1;
  failed.error = "the judge was away";
  failed.finish_reason = "length";
  const absl::Time began = absl::FromUnixSeconds(0);
  const auto metrics = ResponseMetrics(
      Of({Response(v1::PURPOSE_TRAIN, 0, 0, 1, 10), Response(v1::PURPOSE_TRAIN, 0, 1, 3, 20),
          failed, Response(v1::PURPOSE_BASELINE, 0, 0, 50, 500)}),
      {began, began + absl::Seconds(7), began + absl::Seconds(9)});
  EXPECT_EQ(metrics.at("critic/score/mean"), 2);
  EXPECT_EQ(metrics.at("critic/score/min"), 1);
  EXPECT_EQ(metrics.at("critic/score/max"), 3);
  EXPECT_DOUBLE_EQ(metrics.at("response_length/mean"), 70.0 / 3);
  EXPECT_EQ(metrics.at("response_length/max"), 40);
  EXPECT_DOUBLE_EQ(metrics.at("response_length/clip_ratio"), 1.0 / 3);
  EXPECT_EQ(metrics.at("reward/errors"), 1);
  EXPECT_EQ(metrics.at("reward/infra_failed"), 1);
  EXPECT_EQ(metrics.at("perf/total_num_tokens"), 70 + 15);
  EXPECT_EQ(metrics.at("timing_s/gen"), 7);
  EXPECT_EQ(metrics.at("timing_s/reward"), 2);
  EXPECT_EQ(metrics.at("perf/rollout_tokens_per_second"), 10);
}

// Rewards by hand: math 1, 0 and one that failed; text 0.25 without an accuracy.
TEST(StepMetricsTest, StepsAreReportedBySourceWhereThereAreSeveral) {
  SourceSeries sources;
  sources.names = {"math", "text"};
  sources.of = {0, 1};
  TrajectoryInfo right = Response(v1::PURPOSE_TRAIN, 0, 0, 1, 1);
  right.scores["accuracy"] = 1;
  TrajectoryInfo wrong = Response(v1::PURPOSE_TRAIN, 0, 1, 0, 1);
  wrong.scores["accuracy"] = 0;
  TrajectoryInfo failed = Response(v1::PURPOSE_TRAIN, 0, 2, 9, 1);
  failed.failed = 1;
  const auto all = Of({right, wrong, failed, Response(v1::PURPOSE_TRAIN, 1, 0, 0.25, 1)});
  const std::map<std::string, double> expected = {{"train-core/math/score/mean", 0.5},
                                                  {"train-core/math/accuracy/mean", 0.5},
                                                  {"train-core/text/score/mean", 0.25}};
  EXPECT_EQ(SourceMetrics(all, sources), expected);
  EXPECT_TRUE(SourceMetrics(all, {}).empty()) << "one source is all";
}

// Two responses that a limited rule scored 1 and 0, one that it did not judge, one where the reward
// said that it failed: (1 + 0 + 0) / 3.
TEST(StepMetricsTest, AScoreIsAMeanOverTheResponsesThatHaveIt) {
  TrajectoryInfo right = Response(v1::PURPOSE_TRAIN, 0, 0, 1, 1);
  right.scores["numeric"] = 1;
  TrajectoryInfo wrong = Response(v1::PURPOSE_TRAIN, 0, 1, 0, 1);
  wrong.scores["numeric"] = 0;
  TrajectoryInfo broken = Response(v1::PURPOSE_TRAIN, 1, 1, 0, 1);
  broken.error = "no number";
  const absl::Time t = absl::FromUnixSeconds(0);
  const auto metrics = ResponseMetrics(
      Of({right, wrong, broken, Response(v1::PURPOSE_TRAIN, 1, 0, 0, 1)}), {t, t, t});
  EXPECT_DOUBLE_EQ(metrics.at("reward/numeric/mean"), 1.0 / 3);
}

// Prompts 0 (source a): 0.2, 0.8; 1 (a): 0.5, failed; 2 (b): 1, 0. By hand.
TEST(StepMetricsTest, BestOfNIsTheMeanOverPromptsOfTheBestSample) {
  const auto eval = [](uint64_t prompt, uint32_t sample, double reward) {
    return Response(v1::PURPOSE_EVAL, prompt, sample, reward, 1);
  };
  TrajectoryInfo failed = eval(1, 1, 9);
  failed.failed = 1;
  TrajectoryInfo judged = eval(2, 0, -7);
  judged.scores["accuracy"] = 1;  // counts instead of the reward
  const auto metrics = EvaluationMetrics(
      Of({eval(0, 0, 0.2), eval(0, 1, 0.8), eval(1, 0, 0.5), failed, judged, eval(2, 1, 0)}),
      /*samples=*/2, {"a", "a", "b"}, /*prompts=*/3);
  EXPECT_DOUBLE_EQ(metrics.at("val-core/a/mean@2"), (0.2 + 0.8 + 0.5) / 3);
  EXPECT_DOUBLE_EQ(metrics.at("val-core/a/best@2"), (0.8 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(metrics.at("val-core/b/mean@2"), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("val-core/b/best@2"), 1);
  EXPECT_DOUBLE_EQ(metrics.at("val/accuracy"), (0.2 + 0.8 + 0.5 + 1 + 0) / 5);
  EXPECT_DOUBLE_EQ(metrics.at("val/reward"), (0.2 + 0.8 + 0.5 - 7 + 0) / 5);
  EXPECT_EQ(metrics.at("val/infra_failed"), 1);
}

TEST(StepMetricsTest, AnEvaluationWithoutAnyRewardHasNoAccuracy) {
  TrajectoryInfo failed = Response(v1::PURPOSE_EVAL, 0, 0, 1, 1);
  failed.failed = 1;
  const auto metrics = EvaluationMetrics(Of({failed}), 1, {"a"}, 1);
  EXPECT_EQ(metrics.count("val/accuracy"), 0u);
  EXPECT_EQ(metrics.at("val/infra_failed"), 1);
}

}  // namespace
}  // namespace baton::controller
