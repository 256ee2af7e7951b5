#include "controller/core/loop/checkpoint_flow.h"

#include "gtest/gtest.h"
#include "tests/support/controller/parts.h"

namespace baton::controller {
namespace {

const absl::Time kWritten = absl::FromUnixSeconds(1000);

// A job whose actor has done step 3; its ranks have written their parts at kWritten.
struct WrittenParts {
  WrittenParts() : job(RowOfStep3(), /*epoch=*/1, JobCoreOptions()) {
    job.out.Begin(kWritten);
    OnGroupSaved(job);
  }
  static store::v1::JobRow RowOfStep3() {
    store::v1::JobRow row;
    const auto submitted = SubmittedJob(
        "kind: JOB_KIND_RL trainer { total_training_steps: 9 } data { train_batch_size: 2 }");
    *row.mutable_job() = *submitted;
    row.mutable_job()->set_step(3);
    row.mutable_job()->set_state(v1::Job::STATE_RUNNING);
    row.mutable_job()->set_total_steps(9);
    row.set_incarnation(1);
    row.add_spent()->set_last(5);
    row.set_saved_step(-1);
    return row;
  }
  CheckpointCommitted Committed(uint64_t incarnation = 1) const {
    CheckpointCommitted event;
    event.incarnation = incarnation;
    event.checkpoint.set_step(3);
    event.checkpoint.set_path("checkpoints/step-3");
    return event;
  }
  JobParts job;
};

TEST(CheckpointSaveTest, ListsACheckpointOnceTheControllerHasCompletedIt) {
  WrittenParts world;
  const std::vector<CommitCheckpoint> commits = TakeAll<CommitCheckpoint>(world.job.out);
  ASSERT_EQ(commits.size(), 1u);
  EXPECT_EQ(commits[0].step, 3);
  EXPECT_EQ(commits[0].row.spent(0).last(), 5u);
  EXPECT_TRUE(commits[0].row.job().has_effective_spec()) << "another job may go on from it";
  EXPECT_TRUE(world.job.save.committing());
  EXPECT_TRUE(world.job.milestones.checkpoints().empty());
  OnCommitted(world.Committed(), world.job);
  EXPECT_FALSE(world.job.save.committing());
  ASSERT_EQ(world.job.milestones.checkpoints().size(), 1u);
  EXPECT_EQ(world.job.milestones.rollback_step(), 3);
}

TEST(CheckpointSaveTest, IgnoresACheckpointOfAnEarlierIncarnation) {
  WrittenParts world;
  OnCommitted(world.Committed(/*incarnation=*/0), world.job);
  EXPECT_TRUE(world.job.save.committing()) << "its own is still under way";
  EXPECT_TRUE(world.job.milestones.checkpoints().empty());
  world.job.save.End();
  OnCommitted(world.Committed(), world.job);
  EXPECT_TRUE(world.job.milestones.checkpoints().empty()) << "the job went back";
}

TEST(CheckpointSaveTest, FailsIfACheckpointIsNotCompletedInTime) {
  WrittenParts world;
  CheckpointSave& save = world.job.save;
  const absl::Duration limit = absl::Minutes(10);
  EXPECT_TRUE(save.CheckDeadline(3, kWritten + limit, limit).ok());
  save.Delay(absl::Hours(1), kWritten + absl::Hours(1));
  EXPECT_TRUE(save.CheckDeadline(3, kWritten + absl::Hours(1), limit).ok()) << "time that was lost";
  const absl::Status late =
      save.CheckDeadline(3, kWritten + absl::Hours(1) + limit + absl::Seconds(1), limit);
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(save.committing());
}

TEST(UpdateReportsTest, ReportsOfAnUpdateOutliveARestart) {
  store::v1::JobRow row;
  (*row.mutable_update_metrics())["critic/loss"] = 0.5;
  UpdateReports reports;
  reports.Restore(row);
  store::v1::JobRow again;
  reports.Save(&again);
  EXPECT_EQ(again.update_metrics().at("critic/loss"), 0.5);
}

TEST(ActivitiesTest, TracksTheCurrentActivityAndItsStartTime) {
  Activities doing;
  EXPECT_TRUE(doing.Is(Activity::kNone));
  doing.Switch(Activity::kEvaluate, kWritten);
  EXPECT_TRUE(doing.OnResponses());
  doing.Switch(Activity::kBatch, kWritten + absl::Seconds(5));
  EXPECT_FALSE(doing.OnResponses());
  EXPECT_EQ(doing.since(), kWritten + absl::Seconds(5));
  doing.Delay(absl::Seconds(60), kWritten + absl::Seconds(20));
  EXPECT_EQ(doing.since(), kWritten + absl::Seconds(20)) << "not later than now";
}

}  // namespace
}  // namespace baton::controller
