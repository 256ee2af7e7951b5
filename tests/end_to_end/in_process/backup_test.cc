// A backup of a running job becomes a data root, on which another controller goes on with it.
#include <filesystem>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "sdk/cli/cluster/backup_archive.h"
#include "sdk/client/client.h"
#include "tests/end_to_end/in_process/undisturbed.h"

namespace baton::testing {
namespace {

namespace fs = std::filesystem;

void TakeBackup(TestCluster& cluster, const std::string& file) {
  auto client = Client::Connect(cluster.address(), {});
  ASSERT_TRUE(client.ok()) << client.status();
  auto writer = cli::BackupWriter::Create(file);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const absl::Status sent = (*client)->Backup([&](const v1::BackupResponse& piece) {
    absl::Status status;
    if (!piece.path().empty()) status = (*writer)->Begin(piece.path(), piece.size_bytes());
    if (status.ok()) status = (*writer)->Append(piece.data());
    EXPECT_TRUE(piece.skipped().empty());
    return status;
  });
  ASSERT_TRUE(sent.ok()) << sent;
  const absl::Status closed = (*writer)->Close();
  ASSERT_TRUE(closed.ok()) << closed;
}

TEST(BackupOfAJobTest, GoesOnWhereTheBackupWasTaken) {
  TestCluster cluster;
  const auto slow = [](fake::FakeWorkerOptions& options) {
    options.token_delay = absl::Microseconds(300);
  };
  cluster.AddWorker("actor-0", "actor");
  cluster.AddWorker("rollout-0", "rollout", slow);
  cluster.AddWorker("rollout-1", "rollout", slow);
  cluster.AddWorker("reward-0", "reward");
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(kSteps), "rl").ok());
  ASSERT_TRUE(cluster.WaitForStep("rl", 3)) << cluster.Why("rl");
  const std::string archive = cluster.folder() + "/backup.tar.zst";
  TakeBackup(cluster, archive);
  const std::string first_uid = cluster.Get("rl").uid();
  ASSERT_TRUE(cluster.WaitForState("rl", v1::Job::STATE_SUCCEEDED)) << cluster.Why("rl");

  // The machine is lost; the prompts, which the spec names by their absolute path, are not.
  for (const char* worker : {"actor-0", "rollout-0", "rollout-1", "reward-0"}) {
    cluster.KillWorker(worker);
  }
  cluster.StopController();
  const std::string restored = cluster.folder() + "/restored";
  const auto done = cli::RestoreBackup(archive, restored, nullptr);
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_GT(done->files, 3);
  cluster.MoveTo(restored);
  cluster.StartController();
  const v1::Job job = cluster.Get("rl");
  EXPECT_EQ(job.uid(), first_uid);
  EXPECT_LT(job.step(), kSteps);
  EXPECT_GE(job.step(), 3);
  fs::remove_all(cluster.folder() + "/jobs");  // nothing leads to where it was
  cluster.AddStandardWorkers();
  ASSERT_TRUE(cluster.WaitForState("rl", v1::Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  EXPECT_EQ(WeightsHash(cluster.FinalWeights("rl")), UndisturbedHash());
}

// Backups run one at a time, and the next may begin when the first has ended.
TEST(BackupOfAJobTest, AnEmptyControllerHasABackupToo) {
  TestCluster cluster;
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(WaitFor([&] {
      auto client = Client::Connect(cluster.address(), {});
      int files = 0;
      const absl::Status sent = (*client)->Backup([&](const v1::BackupResponse& piece) {
        if (!piece.path().empty()) ++files;
        return absl::OkStatus();
      });
      return sent.ok() && files == 1;
    }));
  }
}

}  // namespace
}  // namespace baton::testing
