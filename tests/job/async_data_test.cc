// An async job whose data are read anew, after a restart of the controller or a pause: what workers
// and the store still hold of it waits until then.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/job/async_testing.h"
#include "tests/job/simulated_job.h"

namespace baton::controller {
namespace {

// Results of an earlier controller count as of the version that their worker holds. So a rollout
// keeps it until the job has taken them in: the controller may die once more before that.
TEST(AsyncDataTest, RolloutsKeepTheirWeightsUntilTheirResponsesAreTakenIn) {
  int met = 0;
  for (uint64_t seed = 0; seed < 40; seed += kStride) {
    SimulatedJob job(Async(seed, 3));
    const bool newer = StepUntil(job, [&] {
      return job.core().step() >= 2 && !job.UnderWay(TaskKind::kPublish).empty() &&
             !job.UnderWay(TaskKind::kGenerate).empty();
    });
    if (!newer) continue;
    std::set<TaskRef> before;
    for (const TaskDone& task : job.UnderWay(TaskKind::kLoadWeights)) before.insert(task.ref);
    job.Restart(0);
    while (Waits(job).count("data") > 0 && job.Step()) {
      if (Waits(job).count("data") == 0) break;
      ++met;
      for (const TaskDone& task : job.UnderWay(TaskKind::kLoadWeights)) {
        EXPECT_EQ(before.count(task.ref), 1u) << "seed " << seed;
      }
    }
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
  }
  EXPECT_GT(met, 40 / static_cast<int>(kStride));
}

// A controller finds the first responses of an evaluation, and before its data are read the trainer
// is lost: the job is rolled back before the step that they were to judge.
TEST(AsyncDataTest, AnEvaluationOfALostBranchLeavesNoRow) {
  int met = 0;
  for (uint64_t seed = 0; seed < 60; seed += kStride) {
    SimulatedJob job(Async(seed, 3));
    const bool begun = StepUntil(job, [&] {
      const store::v1::JobRow& row = job.row();
      return row.evaluation().step() > std::max<int64_t>(0, row.saved_step()) &&
             std::any_of(job.rows().begin(), job.rows().end(), [&](const auto& stored) {
               return stored.second.purpose() == v1::PURPOSE_EVAL &&
                      stored.second.step() == row.evaluation().step();
             });
    });
    if (!begun) continue;
    const int64_t undone = job.row().evaluation().step();
    job.Restart(0);
    job.LoseOneOf("actor");
    while (Waits(job).count("data") > 0 && job.row().evaluation().trajectory_count() > 0 &&
           job.Step()) {
    }
    if (Waits(job).count("data") > 0) ++met;
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
    const auto of_it = [&](const auto& stored) {
      return stored.second.purpose() == v1::PURPOSE_EVAL && stored.second.step() == undone;
    };
    EXPECT_EQ(std::count_if(job.rows().begin(), job.rows().end(), of_it), 4) << "seed " << seed;
  }
  EXPECT_GT(met, 60 / static_cast<int>(kStride) / 4);
}

// The restarted controller saw only the end of the first update, which says nothing about how long
// an update takes: nothing of the third batch begins before the second one ends.
TEST(AsyncDataTest, AnUpdateThatARestartInterruptedIsNoMeasureOfThePace) {
  for (uint64_t seed = 0; seed < 20; seed += kStride) {
    SimulatedJob job(Paced(seed, 4));
    const auto updates = [&] { return !job.UnderWay(TaskKind::kUpdate).empty(); };
    ASSERT_TRUE(StepUntil(job, updates));
    job.Restart(0);
    ASSERT_TRUE(StepUntil(job, [&] { return job.core().step() == 1 && updates(); }));
    job.Swallow(TaskKind::kUpdate);
    while (job.Step()) {
    }
    EXPECT_EQ(OpenPrompts(job).size(), kBatch) << "seed " << seed;
    EXPECT_THAT(Waits(job), testing::Contains("pace")) << "seed " << seed;
    if (HasFailure()) return;
  }
}

// The evaluation ended while later steps were under way. The trainer dies, and those steps are
// undone; the step that was evaluated is not.
TEST(AsyncDataTest, AnEvaluationThatCountsKeepsItsRows) {
  int met = 0;
  for (uint64_t seed = 0; seed < 60; seed += kStride) {
    SimulatedJob job(Async(seed, 3));
    const auto ended_late = [&] {
      const store::v1::JobRow& row = job.row();
      return row.evaluation().trajectory_count() == 0 && row.evaluated_step() == row.saved_step() &&
             row.saved_step() >= 0 && row.job().step() > row.saved_step();
    };
    if (!StepUntil(job, ended_late)) continue;
    const int64_t judged = job.row().evaluated_step();
    const auto rows = [&] {
      return std::count_if(job.rows().begin(), job.rows().end(), [&](const auto& stored) {
        return stored.second.purpose() == v1::PURPOSE_EVAL && stored.second.step() == judged;
      });
    };
    ASSERT_EQ(rows(), 4) << "seed " << seed;
    job.LoseOneOf("actor");
    EXPECT_EQ(rows(), 4) << "seed " << seed;
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
    ++met;
  }
  EXPECT_GT(met, 60 / static_cast<int>(kStride) / 4);
}

// The data are read anew after a pause, which may take longer than anything else. SimulatedJob sees
// that each response is asked for with its prompt.
TEST(AsyncDataTest, AfterAPauseNothingIsMadeBeforeTheDataAreRead) {
  for (uint64_t seed = 0; seed < 120; seed += kStride) {
    SimulatedJob job(Async(seed, 3));
    ASSERT_TRUE(
        StepUntil(job, [&] { return job.core().step() == 1 + static_cast<int>(seed % 3); }));
    job.Send(PauseRequested{});
    // Without its trainer it cannot finish its step: the version that rollouts hold stays the one
    // that they generate with, and they ask for work before the data are read.
    if (seed % 2 == 1) job.LoseOneOf("actor");
    ASSERT_TRUE(StepUntil(job, [&] { return job.core().state() == Job::STATE_PAUSED; }));
    job.Send(ResumeRequested{});
    ExpectAGoodEnd(job, absl::StrCat("seed ", seed));
  }
}

// The files of its evaluation have two prompts less than when it began.
TEST(AsyncDataTest, AnEvaluationOfPromptsThatAreGoneIsGivenUp) {
  int met = 0;
  for (uint64_t seed = 0; seed < 20; seed += kStride) {
    SimulatedJob job(Async(seed, 3));
    if (!StepUntil(job, [&] { return job.row().evaluation().trajectory_count() == 4; })) continue;
    job.Restart(0);
    if (Waits(job).count("data") == 0) continue;
    ++met;
    DataLoaded loaded;
    loaded.train_size = 10;
    loaded.val_size = 2;
    loaded.val_sources.resize(2);
    job.Send(loaded);
    EXPECT_NE(job.row().evaluation().trajectory_count(), 4u) << "seed " << seed;
  }
  EXPECT_GT(met, 20 / static_cast<int>(kStride) / 2);
}

TEST(AsyncDataTest, ReportsPromptsRemovedWhileTheJobWasPaused) {
  SimulatedJob job(Async(7, 3));
  ASSERT_TRUE(
      StepUntil(job, [&] { return job.core().step() == 2 && OpenPrompts(job).size() >= 6; }));
  job.Send(PauseRequested{});
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().state() == Job::STATE_PAUSED; }));
  job.Restart(0);
  job.Send(ResumeRequested{});
  ASSERT_TRUE(StepUntil(job, [&] { return job.core().state() == Job::STATE_STARTING; }));
  DataLoaded loaded;
  loaded.train_size = 12;
  loaded.val_size = 4;
  loaded.val_sources.resize(4);
  job.Send(loaded);
  EXPECT_THAT(job.warnings(),
              testing::Contains(testing::HasSubstr("have 12 prompts, and had 10 when")));
  loaded.train_size = 2;
  job.Send(loaded);
  job.RunToEnd();
  EXPECT_EQ(job.core().state(), Job::STATE_FAILED);
  EXPECT_THAT(job.core().Describe().error().message(),
              testing::HasSubstr("data.train_files have 2 prompts, and a response to number"));
}

}  // namespace
}  // namespace baton::controller
