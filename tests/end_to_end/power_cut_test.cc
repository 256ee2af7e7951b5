// The power of the controller's machine is cut in the middle of a job, again and again; the workers
// are elsewhere and live on. The weights at the end are those of an undisturbed run.
#include <filesystem>
#include <memory>
#include <random>
#include <string>

#include "controller/store/power_cut_disk.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/undisturbed.h"

namespace baton::testing {
namespace {

namespace fs = std::filesystem;

class PowerCutJobTest : public ::testing::TestWithParam<unsigned> {
 protected:
  // What the disk holds takes the place of what the controller wrote.
  void CutPower(TestCluster& cluster, std::mt19937& random) {
    const std::string left = cluster.folder() + "/left";
    fs::create_directories(left);
    cluster.CutPower([&] { disk_->CutInto(left, random); });
    for (const char* file : {"baton.db", "baton.db-wal", "baton.db-shm"}) {
      fs::remove(cluster.folder() + "/" + file);
      if (fs::exists(left + "/" + file)) {
        fs::rename(left + "/" + file, cluster.folder() + "/" + file);
      }
    }
    disk_.reset();
    disk_ = std::make_unique<store::PowerCutDisk>();
    cluster.StartController();
  }

  std::unique_ptr<store::PowerCutDisk> disk_ = std::make_unique<store::PowerCutDisk>();
};

TEST_P(PowerCutJobTest, TheJobGoesOnAndNothingShownIsTakenBack) {
  UndisturbedHash();  // a cluster of its own, before this one
  std::mt19937 random(GetParam());
  TestCluster cluster(absl::Seconds(2));
  const auto slow = [](fake::FakeWorkerOptions& options) {
    options.token_delay = absl::Microseconds(300);
  };
  cluster.AddWorker("actor-0", "actor");
  cluster.AddWorker("rollout-0", "rollout", slow);
  cluster.AddWorker("rollout-1", "rollout", slow);
  cluster.AddWorker("reward-0", "reward");
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(kSteps), "rl").ok());
  for (int step = 1; step < kSteps; step += 2) {
    ASSERT_TRUE(cluster.WaitForStep("rl", step)) << cluster.Why("rl");
    const int64_t shown = cluster.Get("rl").revision();
    CutPower(cluster, random);
    EXPECT_GE(cluster.Get("rl").revision(), shown);
    EXPECT_GE(cluster.Get("rl").step(), step);
  }
  ASSERT_TRUE(cluster.WaitForState("rl", v1::Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  EXPECT_EQ(WeightsHash(cluster.FinalWeights("rl")), UndisturbedHash());
  const auto events = cluster.Events("rl");
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].revision(), static_cast<int64_t>(i) + 1);  // no gap, no repeat
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PowerCutJobTest, ::testing::Range(0u, 4u));

}  // namespace
}  // namespace baton::testing
