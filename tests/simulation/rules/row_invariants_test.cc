#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/simulation/rules/invariants.h"

namespace baton::simulation {
namespace {

TEST(RowInvariantsTest, BatchesFollowTheSteps) {
  store::v1::JobRow row;
  row.mutable_job()->set_step(4);
  EXPECT_EQ(BatchesFollowTheSteps(row, {}), "");
  EXPECT_EQ(BatchesFollowTheSteps(row, {2, 3, 4}), "");
  EXPECT_EQ(BatchesFollowTheSteps(row, {3, 4, 5}), "");
  EXPECT_NE(BatchesFollowTheSteps(row, {4, 5, 6}), "") << "it outlived a rollback";
  EXPECT_NE(BatchesFollowTheSteps(row, {2, 4, 5}), "");
  EXPECT_NE(BatchesFollowTheSteps(row, {2, 3}), "");
}

TEST(RowInvariantsTest, OnlyTheNewestCheckpointOfASucceededJobKeepsTheOptimizer) {
  store::v1::JobRow row;
  JobFolder folder;
  const auto at = [&](int index) { return row.mutable_checkpoints(index); };
  for (const int64_t step : {2, 4}) {
    row.add_checkpoints()->set_step(step);
    folder.complete[step] = {};
  }
  EXPECT_EQ(TheNewestCheckpointKeepsTheOptimizer(row, folder), "") << "the job goes on";
  row.mutable_job()->set_state(v1::Job::STATE_SUCCEEDED);
  EXPECT_NE(TheNewestCheckpointKeepsTheOptimizer(row, folder), "") << "checkpoint 2 is not marked";
  at(0)->set_weights_only(true);
  EXPECT_NE(TheNewestCheckpointKeepsTheOptimizer(row, folder), "") << "its files are there";
  row.set_drops_optimizer(true);
  EXPECT_EQ(TheNewestCheckpointKeepsTheOptimizer(row, folder), "") << "they are being removed";
  row.set_drops_optimizer(false);
  folder.complete[2].optimizer = false;
  EXPECT_EQ(TheNewestCheckpointKeepsTheOptimizer(row, folder), "");
  folder.complete[4].optimizer = false;
  EXPECT_NE(TheNewestCheckpointKeepsTheOptimizer(row, folder), "") << "the newest one";
  folder.complete[4].optimizer = true;
  row.mutable_job()->mutable_effective_spec()->mutable_trainer()->set_keep_optimizer("all");
  EXPECT_NE(TheNewestCheckpointKeepsTheOptimizer(row, folder), "") << "the job keeps all";

  EXPECT_NE(OnlyMarkedCheckpointsLoseTheOptimizer(std::nullopt), "");
  EXPECT_NE(OnlyMarkedCheckpointsLoseTheOptimizer(row.checkpoints(1)), "");
  EXPECT_EQ(OnlyMarkedCheckpointsLoseTheOptimizer(row.checkpoints(0)), "");
  EXPECT_NE(TrainingGoesOnWithTheOptimizer(2, folder.complete[2]), "");
  EXPECT_EQ(TrainingGoesOnWithTheOptimizer(4, folder.complete[4]), "");
}

TEST(RowInvariantsTest, ABatchIsCommittedWithItsUpdate) {
  store::v1::JobRow row;
  store::v1::BatchRow batch;
  row.set_incarnation(2);
  row.mutable_job()->set_step(4);
  batch.set_incarnation(2);
  batch.set_step(5);
  batch.add_entries()->add_column_hashes(1);
  EXPECT_NE(BatchIsCommittedWithItsUpdate(row, batch), "") << "there is no command";
  row.add_groups()->mutable_command()->set_kind(static_cast<int>(controller::TaskKind::kUpdate));
  EXPECT_EQ(BatchIsCommittedWithItsUpdate(row, batch), "");
  EXPECT_NE(BatchIsCommittedWithItsUpdate(store::v1::JobRow(), batch), "");
  batch.mutable_entries(0)->clear_column_hashes();
  EXPECT_NE(BatchIsCommittedWithItsUpdate(row, batch), "") << "nothing is left of it to train on";
  row.mutable_job()->set_step(5);
  EXPECT_EQ(BatchIsCommittedWithItsUpdate(row, batch), "");
}

TEST(RowInvariantsTest, TheBatchesOfAJobAreThoseThatMadeItsWeights) {
  store::v1::JobRow row;
  row.mutable_job()->set_state(v1::Job::STATE_SUCCEEDED);
  row.mutable_job()->set_step(2);
  row.mutable_job()->mutable_effective_spec()->set_kind(v1::JOB_KIND_RL);
  JobFolder folder;
  folder.complete[2].trained["actor"].weights = 9;
  JobHistory history;
  history.made_by[8] = {7, 1, {30}};
  history.made_by[9] = {8, 2, {31, 32}};
  uint32_t file = 0;
  const experience::Location at = folder.log.Append("payload", &file);
  std::vector<store::v1::BatchRow> batches(2);
  for (int64_t step : {1, 2}) {
    store::v1::BatchRow& batch = batches[static_cast<size_t>(step - 1)];
    batch.set_step(step);
    for (uint64_t id : history.made_by[static_cast<uint64_t>(7 + step)].ids) {
      store::v1::BatchEntry* entry = batch.add_entries();
      entry->mutable_trajectory()->set_id(id);
      entry->mutable_trajectory()->set_file(at.file);
      entry->mutable_trajectory()->set_size(at.size);
      entry->add_column_hashes(1);
    }
  }
  EXPECT_EQ(BatchesAreWhatWasConsumed(row, history, folder, batches), "");
  EXPECT_EQ(BatchesAreWhatWasConsumed(row, history, folder, {batches[1]}), "");
  row.mutable_job()->mutable_effective_spec()->mutable_trainer()->set_keep_experience("all");
  EXPECT_NE(BatchesAreWhatWasConsumed(row, history, folder, {batches[1]}), "");
  EXPECT_NE(BatchesAreWhatWasConsumed(row, history, folder, {batches[0]}), "");
  auto others = batches;
  others[1].mutable_entries(0)->mutable_trajectory()->set_id(33);
  EXPECT_NE(BatchesAreWhatWasConsumed(row, history, folder, others), "");
  others = batches;
  others[0].mutable_entries(0)->mutable_trajectory()->set_file(at.file + 1);
  EXPECT_NE(BatchesAreWhatWasConsumed(row, history, folder, others), "") << "its file is gone";
}

TEST(RowInvariantsTest, ChecksThatATrajectorysNumberIsUnique) {
  JobHistory history;
  controller::TaskRef ref;
  ref.subject = 30;
  EXPECT_NE(UidNamesOneTrajectory(history, 1, ref), "");
  ref.trajectory_uid = 5;
  EXPECT_EQ(UidNamesOneTrajectory(history, 1, ref), "");
  history.trajectory_uids[5] = {1, 30};
  EXPECT_EQ(UidNamesOneTrajectory(history, 1, ref), "") << "another task of it";
  EXPECT_NE(UidNamesOneTrajectory(history, 2, ref), "") << "the prompt was begun anew";
  ref.subject = 31;
  EXPECT_NE(UidNamesOneTrajectory(history, 1, ref), "");
}

TEST(RowInvariantsTest, ChecksThatGroupsBeginInOrderAlsoAfterARollback) {
  FirstTries begun;
  const auto asked = [&](v1::Purpose purpose, uint64_t prompt_index, uint64_t trajectory_uid,
                         uint64_t incarnation) {
    controller::TaskRef ref;
    ref.subject = controller::TrajectoryId(purpose, prompt_index, 0, 1);
    ref.trajectory_uid = trajectory_uid;
    return begun.Asked(ref, incarnation);
  };
  for (uint64_t prompt_index = 0; prompt_index < 4; ++prompt_index) {
    EXPECT_EQ(asked(v1::PURPOSE_TRAIN, prompt_index, 1 + prompt_index, 1), "");
  }
  EXPECT_EQ(asked(v1::PURPOSE_TRAIN, 0, 1, 1), "") << "it is tried again";
  // Each evaluation draws the same.
  for (uint64_t trajectory_uid : {5, 7}) {
    EXPECT_EQ(asked(v1::PURPOSE_EVAL, 0, trajectory_uid, 1), "");
    EXPECT_EQ(asked(v1::PURPOSE_EVAL, 1, trajectory_uid + 1, 1), "");
  }
  // The rollback to prompt index 2.
  EXPECT_EQ(asked(v1::PURPOSE_TRAIN, 2, 9, 2), "");
  EXPECT_EQ(asked(v1::PURPOSE_TRAIN, 4, 11, 2), "");
  EXPECT_NE(asked(v1::PURPOSE_TRAIN, 3, 10, 2), "") << "a prompt was passed over";
  EXPECT_EQ(asked(v1::PURPOSE_EVAL, 1, 13, 2), "");
  EXPECT_NE(asked(v1::PURPOSE_EVAL, 0, 12, 2), "");
  EXPECT_NE(asked(v1::PURPOSE_TRAIN, 3, 14, 2), "") << "its number is not that of its prompt";
}

TEST(RowInvariantsTest, VersionsCountTheirUpdates) {
  JobHistory history;
  history.updates_of = {{1, 0}, {3, 2}};
  store::v1::JobRow row;
  row.add_versions()->set_version(1);
  row.add_versions()->set_version(2);  // nobody has seen its weights
  row.add_versions()->set_version(3);
  row.mutable_versions(2)->set_actor_updates(2);
  EXPECT_EQ(VersionsCountTheirUpdates(row, history), "");
  row.mutable_versions(2)->set_actor_updates(3);
  EXPECT_NE(VersionsCountTheirUpdates(row, history), "");
}

}  // namespace
}  // namespace baton::simulation
