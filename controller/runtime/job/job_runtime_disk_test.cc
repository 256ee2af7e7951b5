#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "controller/ports/fake_job_files.h"
#include "controller/runtime/job/job_runtime.h"
#include "controller/runtime/job_files/job_folders.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/job_runtime.h"

namespace baton::controller {
namespace {

// The row of a job whose actor ranks, one for each of `workers`, save their state after step 2.
store::v1::JobRow SavingRow(const std::vector<std::string>& workers) {
  store::v1::JobRow row;
  *row.mutable_job() = QueuedJob();
  row.mutable_job()->set_state(v1::Job::STATE_RUNNING);
  row.mutable_job()->set_revision(1);
  row.mutable_job()->set_step(2);
  row.mutable_job()->set_total_steps(9);
  row.mutable_job()->set_policy_version(3);
  v1::JobSpec& spec = *row.mutable_job()->mutable_effective_spec();
  spec.set_kind(v1::JOB_KIND_SFT);
  spec.mutable_data()->add_train_files("data.jsonl");
  spec.mutable_data()->set_train_batch_size(1);
  spec.mutable_actor()->mutable_parallel()->set_dp(static_cast<int>(workers.size()));
  row.mutable_job()->clear_dataflow();
  row.mutable_job()->mutable_dataflow()->add_update()->set_role("actor");
  row.set_incarnation(1);
  row.set_saved_step(0);
  store::v1::GroupRow& group = *row.add_groups();
  group.set_role("actor");
  group.set_group_epoch(3);
  group.set_sequence(5);
  group.mutable_command()->set_kind(static_cast<int>(TaskKind::kSaveCheckpoint));
  group.mutable_command()->set_group_epoch(3);
  group.mutable_command()->set_sequence(5);
  for (const std::string& worker : workers) {
    store::v1::SlotRow& slot = *row.add_slots();
    slot.set_role("actor");
    slot.set_worker_id(worker);
    slot.set_ready(true);
  }
  return row;
}

// Rank 0 writes into a folder that is made for it. A rank that comes back first after a restart
// must not begin: it would wait, within a collective, for a rank that may find no room.
TEST(JobRuntimeTest, RanksBeginToSaveWhenTheFolderStands) {
  RestartedController controller(EmptyRoot("ranks_save"), R"({"prompt": "1+1=", "response": "2"})");
  const store::v1::JobRow row = SavingRow({"actor-0", "actor-1"});

  const auto first = std::make_shared<Recorder>(), second = std::make_shared<Recorder>();
  controller.workers.Set("actor-0", first);
  controller.workers.Set("actor-1", second);
  const auto job = controller.Start(row);

  job->Post(WorkerReconnected{"actor-1", {{"actor", 3}}, {}, {}});
  EXPECT_TRUE(second->AwaitSaves(1, absl::Milliseconds(200)).empty());
  job->Post(WorkerReconnected{"actor-0", {{"actor", 3}}, {}, {}});
  const std::vector<std::string> folders = first->AwaitSaves(1);
  ASSERT_EQ(folders.size(), 1u);
  EXPECT_EQ(second->AwaitSaves(1), folders);
  EXPECT_TRUE(std::filesystem::is_directory(folders[0]));
  // A task that was lost on the way is sent again, and existing files are not removed.
  std::ofstream(folders[0] + "/written") << "by rank 0";
  job->Post(WorkerReconnected{"actor-1", {{"actor", 3}}, {}, {}});
  EXPECT_EQ(second->AwaitSaves(2).size(), 2u);
  job->Post(WorkerReconnected{"actor-0", {{"actor", 3}}, {}, {}});
  EXPECT_EQ(first->AwaitSaves(2).size(), 2u);
  EXPECT_TRUE(std::filesystem::exists(folders[0] + "/written"));
}

// Waits until the job's disk is `healthy`, for 20 s at most.
bool BecomesHealthy(const JobRuntime& job, bool healthy) {
  const absl::Time end = absl::Now() + absl::Seconds(20);
  while (job.disk_health().ok() != healthy) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

// A job whose first checkpoint waits for a full disk.
class FullDiskTest : public testing::Test {
 protected:
  FullDiskTest() {
    DataSet train;
    train.examples.emplace_back().prompt = "1=";
    files_ = std::make_unique<FakeJobFiles>(MakeJobData(std::move(train)));
    files_->SetFull(true);
    controller_.context.files = files_.get();
    const auto worker = std::make_shared<Recorder>();
    controller_.workers.Set("actor-0", worker);
    job_ = controller_.Start(SavingRow({"actor-0"}));
    job_->Post(WorkerReconnected{"actor-0", {{"actor", 3}}, {}, {}});
    const std::optional<TaskToken> save = worker->AwaitSaveToken();
    if (!save.has_value()) return;
    v1::TaskResult saved;
    saved.add_files()->set_path("actor.safetensors");
    job_->OnResult("actor-0", save->ref, saved);
    waits_ = BecomesHealthy(*job_, false);
  }
  v1::Job Described() {
    v1::Job found;
    absl::Notification told;
    job_->Describe([&](const absl::StatusOr<v1::Job>& job) {
      found = *job;
      told.Notify();
    });
    told.WaitForNotification();
    return found;
  }
  size_t Listed() { return controller_.store.Scan(kCheckpointTable, {})->size(); }

  RestartedController controller_{EmptyRoot("full_disk"), R"({"prompt": "1=", "response": "1"})"};
  std::unique_ptr<FakeJobFiles> files_;
  std::shared_ptr<JobRuntime> job_;
  bool waits_ = false;
};

// The job goes back to an earlier step meanwhile, and that step's successor saves anew: the folder
// that waited must not take the place of the new one.
TEST_F(FullDiskTest, ACheckpointIsGivenUpWhenItsJobGoesBack) {
  ASSERT_TRUE(waits_) << "the full disk refused the checkpoint";
  job_->Post(WorkerLost{"actor-0", "drained"});
  EXPECT_EQ(Described().step(), 0);
  files_->SetFull(false);
  ASSERT_TRUE(BecomesHealthy(*job_, true)) << "the write was given up, or is done";
  EXPECT_THAT(files_->checkpoints(), testing::IsEmpty());
}

// A checkpoint that was given up is listed nowhere.
TEST_F(FullDiskTest, ACheckpointOfACancelledJobIsNotListed) {
  ASSERT_TRUE(waits_) << "the full disk refused the checkpoint";
  const size_t before = Listed();
  job_->Post(CancelRequested{});
  job_->Post(WorkerLost{"actor-0", "drained"});
  EXPECT_EQ(Described().state(), v1::Job::STATE_CANCELLED);
  files_->SetFull(false);
  ASSERT_TRUE(BecomesHealthy(*job_, true)) << "the write was given up, or is done";
  Described();  // after the consequences of the write
  EXPECT_THAT(files_->checkpoints(), testing::IsEmpty());
  EXPECT_EQ(Listed(), before);
}

// The deleted job's name is free, so a new folder would be in the way of the next job of that name.
TEST(JobRuntimeTest, ADeletedJobIsReadNoMoreAndMakesNoFolder) {
  RestartedController controller(EmptyRoot("late_read"), R"({"prompt": "1=", "response": "1"})");
  const std::string folder = JobFolderOf(controller.root, QueuedJob().name());
  const auto log = controller.files.FilesOf(QueuedJob().name())->OpenLog();
  ASSERT_TRUE(log.ok() && (*log)->Append("payload").ok());
  ASSERT_TRUE(std::filesystem::exists(folder));
  store::v1::JobRow row = RunningRow({});
  row.mutable_job()->set_state(v1::Job::STATE_CANCELLED);
  const auto job = controller.Start(row);
  absl::Notification removed, read;
  job->RemoveFiles([&](const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    removed.Notify();
  });
  job->ReadPayloadAsync({1, 0, 7}, [&](const absl::StatusOr<std::string>& payload) {
    EXPECT_TRUE(absl::IsNotFound(payload.status())) << payload.status();
    read.Notify();
  });
  removed.WaitForNotification();
  read.WaitForNotification();
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace baton::controller
