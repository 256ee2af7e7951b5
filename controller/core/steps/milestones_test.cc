#include "controller/core/steps/milestones.h"

#include "controller/core/prompts/prompt_data.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/parts.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const absl::Time kStart = absl::FromUnixSeconds(1000);

Milestones EveryTwoSteps(const std::string& more = "") {
  return Milestones(SubmittedJob("kind: JOB_KIND_RL trainer { test_freq: 2 save_freq: 3 "
                                 "val_before_train: false val_after_train: true " +
                                 more + "}"),
                    /*total_steps=*/7);
}

v1::Checkpoint CheckpointOf(int64_t step) {
  v1::Checkpoint checkpoint;
  checkpoint.set_step(step);
  return checkpoint;
}

std::vector<int64_t> StepsOf(const Milestones& milestones) {
  std::vector<int64_t> steps;
  for (const v1::Checkpoint& checkpoint : milestones.checkpoints())
    steps.push_back(checkpoint.step());
  return steps;
}

TEST(MilestonesTest, EvaluationsAndCheckpointsAreDueWhereTheSpecSays) {
  const Milestones milestones = EveryTwoSteps();
  std::vector<int64_t> evaluations, saves;
  for (int64_t step = 0; step <= 7; ++step) {
    if (milestones.EvaluationDue(step, /*validates=*/true)) evaluations.push_back(step);
    if (milestones.SaveDue(step, /*pausing=*/false)) saves.push_back(step);
    EXPECT_FALSE(milestones.EvaluationDue(step, /*validates=*/false)) << step;
    EXPECT_EQ(milestones.AtEnd(step), step == 7);
  }
  EXPECT_THAT(evaluations, ElementsAre(2, 4, 6, 7));
  EXPECT_THAT(saves, ElementsAre(3, 6, 7));
  EXPECT_TRUE(milestones.SaveDue(1, /*pausing=*/true)) << "a resting job keeps nothing else";
}

TEST(MilestonesTest, AJobThatOnlyEvaluatesIsAtItsEndAndSavesNothing) {
  Milestones milestones(SubmittedJob("kind: JOB_KIND_RL trainer { val_only: true save_freq: 1 "
                                     "val_before_train: true }"),
                        /*total_steps=*/0);
  EXPECT_TRUE(milestones.AtEnd(0));
  EXPECT_TRUE(milestones.EvaluationDue(0, /*validates=*/true));
  EXPECT_FALSE(milestones.SaveDue(0, /*pausing=*/false));
  EXPECT_FALSE(milestones.SaveDue(0, /*pausing=*/true)) << "it has learned nothing";
  milestones.Evaluated(0);
  EXPECT_FALSE(milestones.EvaluationDue(0, /*validates=*/true));
}

TEST(MilestonesTest, CompletedMilestonesAreNotDueAgain) {
  EffectSink out = SinkAt(kStart, 6);
  Milestones milestones = EveryTwoSteps();
  milestones.Evaluated(6);
  EXPECT_FALSE(milestones.EvaluationDue(6, true));
  milestones.Saved(CheckpointOf(6), {}, out);
  EXPECT_FALSE(milestones.SaveDue(6, true));
}

TEST(MilestonesTest, RollBackRestoresTheSavedState) {
  EffectSink out = SinkAt(kStart, 3);
  Milestones milestones = EveryTwoSteps();
  EXPECT_EQ(milestones.rollback_step(), 0) << "without a checkpoint the job begins anew";
  milestones.Saved(CheckpointOf(3), {{{"kl_coef", 0.5}}, {}}, out);
  milestones.Evaluated(4);
  const SavedState& saved = milestones.RollBack();
  EXPECT_EQ(milestones.rollback_step(), 3);
  EXPECT_EQ(saved.algorithm.at("kl_coef"), 0.5);
  EXPECT_EQ(milestones.evaluated_step(), 3) << "step 4 is redone, and evaluated again";
}

TEST(MilestonesTest, DeletesTheOldestCheckpointAboveTheLimit) {
  EffectSink out = SinkAt(kStart);
  Milestones milestones = EveryTwoSteps("max_checkpoints: 2");
  for (int64_t step : {1, 2, 3}) milestones.Saved(CheckpointOf(step), {}, out);
  EXPECT_THAT(StepsOf(milestones), ElementsAre(2, 3));
  const auto deleted = TakeAll<DeleteCheckpoint>(out);
  ASSERT_EQ(deleted.size(), 1u);
  EXPECT_EQ(deleted[0].checkpoint.step(), 1);
}

// Each checkpoint has 30 bytes; 20 of them are the optimizer's files.
Milestones WithCheckpoints(const std::vector<int64_t>& steps, const std::string& more,
                           EffectSink& out) {
  Milestones milestones = EveryTwoSteps("max_checkpoints: 0 " + more);
  for (const int64_t step : steps) {
    v1::Checkpoint checkpoint = CheckpointOf(step);
    checkpoint.set_size_bytes(30);
    checkpoint.set_optimizer_bytes(20);
    milestones.Saved(checkpoint, {}, out);
  }
  (void)out.Take();
  out.Begin(kStart);
  return milestones;
}

TEST(MilestonesTest, OnlyTheNewestCheckpointKeepsTheOptimizer) {
  EffectSink out = SinkAt(kStart);
  Milestones milestones = WithCheckpoints({1, 2, 3}, "", out);
  milestones.DropOptimizers(out);
  const Effects effects = out.Take();
  ASSERT_EQ(effects.size(), 3u);
  for (size_t i = 0; i < 2; ++i) {
    const auto* put = std::get_if<PutCheckpoint>(&effects[i]);
    ASSERT_NE(put, nullptr) << "a checkpoint is marked before its files are removed";
    EXPECT_EQ(put->checkpoint.step(), static_cast<int64_t>(i) + 1);
    EXPECT_TRUE(put->checkpoint.weights_only());
    EXPECT_EQ(put->checkpoint.size_bytes(), 10);
    EXPECT_FALSE(put->checkpoint.has_optimizer_bytes());
  }
  const auto* drop = std::get_if<DropOptimizers>(&effects[2]);
  ASSERT_NE(drop, nullptr);
  ASSERT_EQ(drop->checkpoints.size(), 2u);
  EXPECT_EQ(drop->checkpoints[1].step(), 2);
  EXPECT_FALSE(milestones.checkpoints()[2].weights_only());
  EXPECT_EQ(milestones.checkpoints()[2].size_bytes(), 30);
}

TEST(MilestonesTest, EveryCheckpointKeepsTheOptimizerIfTheSpecSaysSo) {
  EffectSink out = SinkAt(kStart);
  Milestones milestones = WithCheckpoints({1, 2, 3}, "keep_optimizer: 'all'", out);
  milestones.DropOptimizers(out);
  EXPECT_THAT(out.Take(), IsEmpty());
}

TEST(MilestonesTest, ACheckpointWithoutFilesOfTheOptimizerStaysAsItIs) {
  EffectSink out = SinkAt(kStart);
  Milestones milestones = EveryTwoSteps("max_checkpoints: 0");
  milestones.DropOptimizers(out);
  for (int64_t step : {1, 2}) milestones.Saved(CheckpointOf(step), {}, out);
  (void)out.Take();
  out.Begin(kStart);
  milestones.DropOptimizers(out);
  EXPECT_THAT(out.Take(), IsEmpty());
}

TEST(MilestonesTest, ARestartGoesOnWithTheOptimizersThatAreBeingDropped) {
  EffectSink out = SinkAt(kStart);
  Milestones milestones = WithCheckpoints({1, 2, 3}, "", out);
  milestones.DropOptimizers(out);
  (void)out.Take();
  store::v1::JobRow row;
  milestones.Save(&row);
  EXPECT_TRUE(row.drops_optimizer());
  row.mutable_checkpoints()->Assign(milestones.checkpoints().begin(),
                                    milestones.checkpoints().end());
  Milestones again = EveryTwoSteps();
  again.Restore(row);
  out.Begin(kStart);
  again.GoOnDropping(out);
  const auto drops = TakeAll<DropOptimizers>(out);
  ASSERT_EQ(drops.size(), 1u);
  EXPECT_EQ(drops[0].checkpoints.size(), 2u);
  again.OptimizersDropped();
  out.Begin(kStart);
  again.GoOnDropping(out);
  EXPECT_THAT(out.Take(), IsEmpty());
  store::v1::JobRow done;
  again.Save(&done);
  EXPECT_FALSE(done.drops_optimizer());
}

TEST(MilestonesTest, OnlyTimeWithWorkersCountsAgainstMaxHours) {
  Milestones milestones = EveryTwoSteps("max_hours: 1");
  milestones.Count(/*works=*/false, kStart);
  milestones.Count(/*works=*/false, kStart + absl::Hours(9));
  milestones.Count(/*works=*/true, kStart + absl::Hours(9) + absl::Minutes(59));
  milestones.EndWhenOutOfTime();
  EXPECT_FALSE(milestones.AtEnd(1));
  // For ten minutes the store accepted no writes, so no worker got a task.
  milestones.Delay(absl::Minutes(10), kStart + absl::Hours(10) + absl::Minutes(9));
  milestones.Count(/*works=*/true, kStart + absl::Hours(10) + absl::Minutes(9));
  milestones.EndWhenOutOfTime();
  EXPECT_FALSE(milestones.AtEnd(1));
  milestones.Count(/*works=*/true, kStart + absl::Hours(10) + absl::Minutes(10));
  milestones.EndWhenOutOfTime();
  EXPECT_TRUE(milestones.AtEnd(1));
}

TEST(MilestonesTest, RestoresItsStateFromTheJobRow) {
  EffectSink out = SinkAt(kStart, 3);
  Milestones milestones = EveryTwoSteps();
  milestones.Evaluated(2);
  milestones.Saved(CheckpointOf(3), {{{"kl_coef", 0.5}}, {}}, out);
  store::v1::JobRow row;
  milestones.Save(&row);
  EXPECT_THAT(row.checkpoints(), IsEmpty()) << "they have rows of their own";
  *row.add_checkpoints() = CheckpointOf(3);
  Milestones again = EveryTwoSteps();
  again.Restore(row);
  EXPECT_EQ(again.saved_step(), 3);
  EXPECT_EQ(again.evaluated_step(), 2);
  EXPECT_EQ(again.RollBack().algorithm.at("kl_coef"), 0.5);
  EXPECT_THAT(StepsOf(again), ElementsAre(3));
}

TEST(PromptDataTest, FilesAreReadWithinTheirDeadlineOrNotAtAll) {
  EffectSink out = SinkAt(kStart);
  PromptData data;
  data.Load(/*held=*/false, out);
  EXPECT_EQ(TakeAll<LoadData>(out).size(), 1u);
  const absl::Duration limit = absl::Minutes(10);
  EXPECT_TRUE(data.CheckDeadline(kStart + limit, limit).ok());
  data.Delay(absl::Hours(1), kStart + absl::Hours(1));
  EXPECT_TRUE(data.CheckDeadline(kStart + absl::Hours(1), limit).ok()) << "time that was lost";
  EXPECT_FALSE(data.CheckDeadline(kStart + absl::Hours(2), limit).ok());
  EXPECT_FALSE(data.loading());
}

TEST(PromptDataTest, DataWithoutRoomAreAskedForAgain) {
  const absl::Duration limit = absl::Minutes(10);
  EffectSink out = SinkAt(kStart);
  PromptData data;
  data.Waits({"room for nothing"}, kStart);  // the answer to what was given up
  EXPECT_FALSE(data.loading());
  data.Load(/*held=*/false, out);
  data.Waits({"room for 7 bytes"}, kStart);
  EXPECT_EQ(TakeAll<LoadData>(out).size(), 1u);
  data.Retry(out);
  EXPECT_THAT(TakeAll<LoadData>(out), IsEmpty()) << "too early";
  EffectSink later = SinkAt(kStart + absl::Seconds(2));
  data.Retry(later);
  data.Retry(later);
  EXPECT_EQ(TakeAll<LoadData>(later).size(), 1u) << "until it is answered";
  v1::ExplainJobResponse told;
  WaitList waits(kStart, &told);
  data.Explain("j", limit, waits);
  ASSERT_EQ(told.waits_size(), 1);
  EXPECT_EQ(told.waits(0).cause(), "room for 7 bytes");
  // The wait counts from its beginning; at its limit the job gives its workers back and does not
  // fail.
  data.Waits({"room for 8 bytes"}, kStart + limit);
  EXPECT_EQ(data.HasWaitedFor(kStart + limit, limit), "");
  EXPECT_EQ(data.HasWaitedFor(kStart + limit + absl::Seconds(1), limit), "room for 8 bytes");
  EXPECT_TRUE(data.CheckDeadline(kStart + absl::Hours(1), limit).ok());
  ASSERT_TRUE(data.Loaded({absl::OkStatus(), 10, 0, {}}, {}).ok());
  EXPECT_EQ(data.HasWaitedFor(kStart + absl::Hours(1), limit), "");
}

TEST(PromptDataTest, ALimitCutsTheValidationPrompts) {
  PromptData data;
  v1::DataSpec spec;
  ASSERT_TRUE(data.Loaded({absl::OkStatus(), 10, 3, {"a", "b", "c"}}, spec).ok());
  EXPECT_EQ(data.ValSize(spec), 3u);
  spec.set_val_max_samples(2);
  EXPECT_EQ(data.ValSize(spec), 2u);
  spec.set_val_max_samples(5);
  EXPECT_EQ(data.ValSize(spec), 3u);
  EXPECT_FALSE(data.Loaded({absl::NotFoundError("no file")}, spec).ok());
}

}  // namespace
}  // namespace baton::controller
