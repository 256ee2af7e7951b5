#include "controller/spec/dataflow/learning.h"

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Metrics = std::map<std::string, double>;

v1::JobSpec Rl() {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_rollout()->set_n(4);
  spec.mutable_data()->set_max_response_length(16);
  return spec;
}

Metrics Learns() {
  return {{"critic/score/min", 0},       {"critic/score/max", 1},
          {"critic/advantages/min", -1}, {"critic/advantages/max", 1},
          {"actor/entropy", 0.8},        {"response_length/clip_ratio", 0.25},
          {"actor/skipped_steps", 0}};
}

Metrics AllAre(double reward) {
  Metrics metrics = Learns();
  metrics["critic/score/min"] = metrics["critic/score/max"] = reward;
  metrics["critic/advantages/min"] = metrics["critic/advantages/max"] = 0;
  return metrics;
}

// Steps of one job, with the news about them.
struct NotedJob {
  v1::JobSpec spec = Rl();
  store::v1::LearningRow row;
  int64_t step = 0;
  std::vector<std::string> told;
  absl::Status failure;

  void Do(int times, const Metrics& metrics, bool updated = true, bool learns = true) {
    for (int i = 0; i < times; ++i) {
      const LearningNews news = NoteStep(spec, {++step, learns, updated, metrics}, &row);
      for (const std::string& line : news.warnings) told.push_back(absl::StrCat(step, ": ", line));
      if (!news.failure.ok() && failure.ok()) failure = news.failure;
    }
  }
};

TEST(LearningTest, DoesNotWarnWhileAJobLearns) {
  NotedJob job;
  job.Do(100, Learns());
  EXPECT_THAT(job.told, IsEmpty());
  EXPECT_THAT(LearningSummary(job.spec, job.step, job.row), IsEmpty());
}

TEST(LearningTest, StepsThatRejectEveryTokenAreIdle) {
  NotedJob job;
  Metrics rejected = Learns();
  rejected["actor/optimizer_steps"] = 1;
  rejected["rollout_corr/rollout_rs_masked_fraction"] = 1;
  job.Do(5, rejected);
  rejected["actor/optimizer_steps"] = 0;
  rejected.erase("actor/entropy");
  job.Do(2, rejected, /*updated=*/true, /*learns=*/false);
  EXPECT_THAT(job.told, IsEmpty()) << "the critic alone learned";
  job.spec.mutable_trainer()->set_fail_after_idle_steps(4);
  job.Do(4, rejected);
  ASSERT_EQ(job.told.size(), 1u);
  EXPECT_THAT(job.told[0], AllOf(StartsWith("10: steps 8 to 10 made no update: rollout_rs or "
                                            "rollout_token_veto_threshold rejected every token"),
                                 HasSubstr("rollout_rs_mean"), HasSubstr("widen the thresholds"),
                                 Not(HasSubstr("rollout.top_"))));
  EXPECT_EQ(job.failure.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(job.failure.message()),
              HasSubstr("4), the last because rollout_rs or rollout_token_veto"));
  EXPECT_THAT(LearningSummary(job.spec, job.step, job.row),
              ElementsAre("4 of 11 steps made no update: every token was rejected or masked"));
}

// The ratio is of the truncated distribution, so such a cut alone can reject everything.
TEST(LearningTest, NamesSamplingCutsIfEveryTokenIsRejected) {
  NotedJob job;
  job.spec.mutable_rollout()->set_top_p(1);
  job.spec.mutable_rollout()->set_top_k(20);
  Metrics rejected = Learns();
  rejected["actor/optimizer_steps"] = 0;
  rejected["rollout_corr/rollout_is_veto_fraction"] = 1;
  job.Do(3, rejected);
  job.Do(3, Learns());
  job.spec.mutable_rollout()->set_top_p(0.9);
  job.Do(3, rejected);
  EXPECT_THAT(job.told, ElementsAre(HasSubstr("leave out rollout.top_k, widen the thresholds"),
                                    HasSubstr("leave out rollout.top_k and rollout.top_p, widen")));
}

TEST(LearningTest, ABatchThatIsMaskedWholeWasNotRejected) {
  NotedJob job;
  Metrics masked = Learns();
  masked["actor/optimizer_steps"] = 0;
  job.Do(3, masked);
  EXPECT_THAT(job.told, ElementsAre(AllOf(HasSubstr("1 to 3 made no update: the loss masks left"),
                                          Not(HasSubstr("rollout_rs")))));
}

TEST(LearningTest, WarnsOnceOfStepsWithoutAnUpdateAndCountsThem) {
  NotedJob job;
  job.Do(188, Learns());
  job.Do(412, AllAre(0), /*updated=*/false);
  ASSERT_EQ(job.told.size(), 1u);
  EXPECT_THAT(job.told[0], AllOf(StartsWith("191: steps 189 to 191 made no update: all rewards of "
                                            "each group were equal (every response had reward 0)"),
                                 HasSubstr("`baton samples`"), HasSubstr("`extract`")));
  EXPECT_THAT(LearningSummary(job.spec, job.step, job.row),
              ElementsAre("412 of 600 steps made no update: all rewards of each group were equal"));
}

TEST(LearningTest, AGroupOfOneIsNamed) {
  NotedJob job;
  job.spec.mutable_rollout()->set_n(1);
  job.Do(3, Learns(), /*updated=*/false);
  ASSERT_EQ(job.told.size(), 1u);
  EXPECT_THAT(job.told[0], HasSubstr("rollout.n is 1"));
}

TEST(LearningTest, DistinguishesUniformGroupsFromOneRewardForAll) {
  NotedJob job;
  job.Do(3, Learns(), /*updated=*/false);
  ASSERT_EQ(job.told.size(), 1u);
  EXPECT_THAT(job.told[0], AllOf(HasSubstr("too easy or too hard"),
                                 ::testing::Not(HasSubstr("every response had reward"))));
}

TEST(LearningTest, AnUpdateWithoutAdvantagesIsIdleAndACriticsWarmUpIsNot) {
  NotedJob job;
  job.Do(5, AllAre(1), /*updated=*/false, /*learns=*/false);
  ASSERT_EQ(job.told.size(), 1u);  // but the reward is constant
  EXPECT_THAT(job.told[0], HasSubstr("every response had the same reward (1)"));
  EXPECT_EQ(job.row.idle_run(), 0);
  job.Do(3, AllAre(1));
  ASSERT_EQ(job.told.size(), 2u);
  EXPECT_THAT(job.told[1], HasSubstr("steps 6 to 8 had nothing to learn from: every advantage"));
  EXPECT_EQ(job.row.idle_run(), 3);
}

TEST(LearningTest, DoesNotWarnOfAShortSymptom) {
  NotedJob job;
  for (int i = 0; i < 50; ++i) {
    job.Do(2, AllAre(0), /*updated=*/false);
    job.Do(1, Learns());
  }
  EXPECT_THAT(job.told, IsEmpty());
  EXPECT_THAT(LearningSummary(job.spec, job.step, job.row),
              ElementsAre("100 of 150 steps made no update: all rewards of each group were equal"));
}

TEST(LearningTest, RareSymptomsAreNotInTheSummary) {
  NotedJob job;
  job.Do(2, AllAre(0), /*updated=*/false);
  job.Do(19, Learns());
  EXPECT_THAT(LearningSummary(job.spec, job.step, job.row), IsEmpty());  // 2 of 21
}

TEST(LearningTest, LimitsTheWarningsOfAReturningSymptom) {
  NotedJob job;
  for (int i = 0; i < 30; ++i) {
    job.Do(3, AllAre(0), /*updated=*/false);
    job.Do(2, Learns());  // too short to have gone
    job.Do(3, AllAre(0), /*updated=*/false);
    job.Do(3, Learns());
  }
  EXPECT_EQ(job.told.size(), static_cast<size_t>(kMostWarnings));
}

TEST(LearningTest, WarnsOfCollapseTruncationAndSkippedUpdates) {
  NotedJob job;
  Metrics metrics = Learns();
  metrics["actor/entropy"] = 0.001;
  job.Do(3, metrics);
  metrics = Learns();
  metrics["response_length/clip_ratio"] = 1;
  job.Do(3, metrics);
  metrics = Learns();
  metrics["actor/skipped_steps"] = 2;
  job.Do(1, metrics);
  EXPECT_THAT(job.told,
              ElementsAre(HasSubstr("its entropy was below 0.005 nats a token in steps 1 to 3 "
                                    "(0.001 in the last)"),
                          HasSubstr("in steps 4 to 6 every response was cut at "
                                    "data.max_response_length (16 tokens)"),
                          StartsWith("7: step 7 skipped 2 optimizer updates")));
}

TEST(LearningTest, WarnsOtherKindsOnlyOfSkippedUpdates) {
  NotedJob job;
  job.spec.set_kind(v1::JOB_KIND_SFT);
  job.Do(5, {{"train/loss", 1}, {"train/skipped_steps", 1}});
  EXPECT_THAT(job.told, ElementsAre(StartsWith("1: step 1 skipped 1 optimizer update:")));
}

TEST(LearningTest, AJobFailsAfterSoManyIdleStepsInARow) {
  NotedJob job;
  job.spec.mutable_trainer()->set_fail_after_idle_steps(20);
  job.Do(19, AllAre(0), /*updated=*/false);
  job.Do(1, Learns());
  job.Do(19, AllAre(0), /*updated=*/false);
  EXPECT_TRUE(job.failure.ok());
  job.Do(1, AllAre(0), /*updated=*/false);
  EXPECT_EQ(job.failure.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(job.failure.message()),
      StartsWith("20 steps in a row, steps 21 to 40, had nothing to learn from "
                 "(trainer.fail_after_idle_steps: 20), the last because all rewards of each "
                 "group"));
}

TEST(LearningTest, ADirectionFollowsTheNameUnlessItIsGiven) {
  for (const char* lower :
       {"val/loss", "train/loss", "actor/ppo_kl", "actor/pg_loss", "reward/errors",
        "val/perplexity", "reward/cost", "rollout_corr/training_ppl"}) {
    EXPECT_TRUE(LowerIsBetter(lower, "")) << lower;
    EXPECT_FALSE(LowerIsBetter(lower, "max")) << lower;
  }
  for (const char* higher :
       {"val/accuracy", "critic/score/mean", "val-core/loss/mean@1", "closeness"}) {
    EXPECT_FALSE(LowerIsBetter(higher, "")) << higher;
    EXPECT_TRUE(LowerIsBetter(higher, "min")) << higher;
  }
}

TEST(LearningTest, TheBestStepIsTheFirstWithTheBestValue) {
  v1::JobSpec spec = Rl();
  spec.mutable_trainer()->set_keep_best("val/accuracy");
  store::v1::LearningRow row;
  const double values[] = {0.2, 0.5, 0.5, 0.4, 0.7, 0.1};
  const int64_t best[] = {1, 2, 2, 2, 5, 5};
  for (int i = 0; i < 6; ++i) {
    EXPECT_THAT(NoteValues(spec, i + 1, {{"val/accuracy", values[i]}}, true, &row).warnings,
                IsEmpty());
    EXPECT_EQ(row.best_step(), best[i]) << i;
  }
  EXPECT_EQ(row.best(), 0.7);
  spec.mutable_trainer()->set_keep_best_mode("min");
  (void)NoteValues(spec, 7, {{"val/accuracy", 0.05}}, true, &row);
  EXPECT_EQ(row.best_step(), 7);
}

TEST(LearningTest, AJobStopsWhenAMetricIsNotBetterForLong) {
  v1::JobSpec spec = Rl();
  v1::EarlyStopSpec* early = spec.mutable_trainer()->mutable_early_stop();
  early->set_metric("val/loss");
  early->set_mode("min");
  early->set_patience(2);
  early->set_min_delta(0.1);
  store::v1::LearningRow row;
  const auto measure = [&](int64_t step, double value) {
    (void)NoteValues(spec, step, {{"val/loss", value}}, true, &row);
    return row.stop_reason();
  };
  EXPECT_EQ(measure(10, 2.0), "");
  EXPECT_EQ(measure(20, 1.95), "");  // by less than min_delta
  EXPECT_EQ(measure(30, 1.8), "");
  EXPECT_EQ(measure(40, 1.75), "");
  EXPECT_EQ(measure(50, 1.9),
            "val/loss has not become better than 1.8 (step 30) in 2 measurements; after step 50 it "
            "is 1.9");
}

TEST(LearningTest, AJobStopsAtItsTarget) {
  v1::JobSpec spec = Rl();
  v1::EarlyStopSpec* early = spec.mutable_trainer()->mutable_early_stop();
  early->set_metric("critic/score/mean");
  early->set_mode("max");
  early->set_patience(3);
  early->set_target(0.9);
  store::v1::LearningRow row;
  (void)NoteValues(spec, 1, {{"critic/score/mean", 0.89}}, false, &row);
  EXPECT_EQ(row.stop_reason(), "");
  (void)NoteValues(spec, 2, {{"critic/score/mean", 0.9}}, false, &row);
  EXPECT_EQ(row.stop_reason(),
            "critic/score/mean is 0.9 after step 2, and trainer.early_stop.target is 0.9");
}

// A best value that was measured in another way does not count for later ones.
TEST(LearningTest, ForgetsTheBestValueOfAnotherMeasurement) {
  v1::JobSpec before = Rl();
  before.mutable_data()->add_val_files("easy.jsonl");
  before.mutable_data()->set_max_response_length(8);
  before.mutable_reward()->add_rules()->set_type("numeric");
  before.mutable_rollout()->mutable_val()->set_n(1);
  before.mutable_trainer()->set_keep_best("val/accuracy");
  before.mutable_trainer()->mutable_early_stop()->set_metric("critic/score/mean");
  struct Case {
    std::string what;
    std::function<void(v1::JobSpec*)> change;
    bool best, stop;  // are forgotten
  };
  const std::vector<Case> cases = {
      {"nothing", [](v1::JobSpec*) {}, false, false},
      {"val_files", [](auto* s) { s->mutable_data()->set_val_files(0, "hard.jsonl"); }, true,
       false},
      {"val_max_samples", [](auto* s) { s->mutable_data()->set_val_max_samples(9); }, true, false},
      {"answer_key", [](auto* s) { s->mutable_data()->set_answer_key("a"); }, true, true},
      {"max_response_length", [](auto* s) { s->mutable_data()->set_max_response_length(9); }, true,
       true},
      {"reward", [](auto* s) { s->mutable_reward()->mutable_rules(0)->set_weight(2); }, true, true},
      {"command", [](auto* s) { s->mutable_reward()->set_command("score"); }, true, true},
      {"judge", [](auto* s) { s->mutable_judge()->set_verdict("(\\d)"); }, true, true},
      {"rollout.val", [](auto* s) { s->mutable_rollout()->mutable_val()->set_n(4); }, true, false},
      {"rollout", [](auto* s) { s->mutable_rollout()->set_temperature(0.5); }, false, true},
      {"stop", [](auto* s) { s->mutable_rollout()->add_stop("\n"); }, true, true},
      {"algorithm", [](auto* s) { s->mutable_algorithm()->set_gamma(0.5); }, false, true},
      {"keep_best", [](auto* s) { s->mutable_trainer()->set_keep_best("val/reward"); }, true,
       false},
      {"keep_best_mode", [](auto* s) { s->mutable_trainer()->set_keep_best_mode("min"); }, true,
       false},
      {"early_stop.mode",
       [](auto* s) { s->mutable_trainer()->mutable_early_stop()->set_mode("min"); }, false, true},
      // Settings that only bound time, memory or length of the job.
      {"trainer", [](auto* s) { s->mutable_trainer()->set_total_training_steps(999); }, false,
       false},
      {"patience", [](auto* s) { s->mutable_trainer()->mutable_early_stop()->set_patience(9); },
       false, false},
      {"lr", [](auto* s) { s->mutable_actor()->set_lr(1); }, false, false},
      {"timeout", [](auto* s) { s->mutable_reward()->set_timeout_seconds(9); }, false, false},
      {"kv cache", [](auto* s) { s->mutable_rollout()->set_kv_cache_bytes(1 << 20); }, false,
       false},
      {"batch", [](auto* s) { s->mutable_data()->set_train_batch_size(9); }, false, false},
  };
  for (const Case& one : cases) {
    store::v1::LearningRow row;
    row.set_best(0.9);
    row.set_best_step(4);
    row.set_stop_best(0.5);
    row.set_stop_best_step(3);
    row.set_stop_misses(2);
    row.set_idle_run(1);
    v1::JobSpec after = before;
    one.change(&after);
    BeginAnewWith(before, after, &row);
    EXPECT_EQ(row.has_best(), !one.best) << one.what;
    EXPECT_EQ(row.best_step(), one.best ? 0 : 4) << one.what;
    EXPECT_EQ(row.has_stop_best(), !one.stop) << one.what;
    EXPECT_EQ(row.stop_misses(), one.stop ? 0 : 2) << one.what;
    EXPECT_EQ(row.idle_run(), 1) << one.what;
  }
}

TEST(LearningTest, WarnsOnceOfAMetricThatIsNotMeasured) {
  v1::JobSpec spec = Rl();
  spec.mutable_trainer()->set_keep_best("val-core/mth/mean@1");
  store::v1::LearningRow row;
  const Metrics metrics = {{"val-core/math/mean@1", 1}, {"timing_s/testing", 1}};
  EXPECT_THAT(NoteValues(spec, 1, {{"critic/score/mean", 1}}, false, &row).warnings, IsEmpty());
  EXPECT_THAT(NoteValues(spec, 1, metrics, true, &row).warnings,
              ElementsAre("trainer.keep_best: the evaluation has not measured "
                          "'val-core/mth/mean@1', so it has no effect; measured were "
                          "val-core/math/mean@1"));
  EXPECT_THAT(NoteValues(spec, 2, metrics, true, &row).warnings, IsEmpty());
}

}  // namespace
}  // namespace baton::controller
