// The power of the controller's machine is cut in the middle of a job, again and again; the workers
// are elsewhere and live on. The weights at the end are those of an undisturbed run.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "controller/store/power_cut_disk.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/in_process/undisturbed.h"

namespace baton::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kSaveFreq = 2;

// The remains of a file that was never synced, after a power cut: all of it, a part with a torn
// end, nothing, or a hole that reads as zeros.
void TearFile(const fs::path& path, std::mt19937& random) {
  const auto size = static_cast<uint64_t>(fs::file_size(path));
  const auto below = [&](uint64_t bound) {
    return std::uniform_int_distribution<uint64_t>(0, bound)(random);
  };
  switch (random() % 4) {
    case 0:
      return;
    case 1:
      return fs::resize_file(path, below(size));
    case 2:
      return fs::resize_file(path, 0);
    default: {
      const uint64_t begin = below(size), end = begin + below(size - begin);
      std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
      file.seekp(static_cast<std::streamoff>(begin));
      file << std::string(end - begin, '\0');
    }
  }
}

// The newest file of each experience log; the one before it is synced when it begins, or is what an
// earlier cut left.
void TearLogs(const fs::path& root, std::mt19937& random) {
  std::map<fs::path, fs::path> newest;  // by folder
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const fs::path folder = entry.path().parent_path();
    if (folder.filename() != "experience" || entry.path().extension() != ".log") continue;
    newest[folder] = std::max(newest[folder], entry.path());
  }
  for (const auto& [folder, path] : newest) TearFile(path, random);
}

class PowerCutJobTest : public ::testing::TestWithParam<unsigned> {
 protected:
  // Replaces the files that the controller wrote by those that the disk would hold: rows may name
  // payloads that are gone, and no row may name some payloads.
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
    TearLogs(cluster.folder(), random);
    disk_.reset();
    disk_ = std::make_unique<store::PowerCutDisk>();
    cluster.StartController();
  }

  std::unique_ptr<store::PowerCutDisk> disk_ = std::make_unique<store::PowerCutDisk>();
};

TEST_P(PowerCutJobTest, TheJobContinuesAndNoShownEventIsTakenBack) {
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
  v1::JobSpec spec = cluster.RlSpec(kSteps);
  spec.mutable_trainer()->set_save_freq(kSaveFreq);
  ASSERT_TRUE(cluster.Create(spec, "rl").ok());
  for (int step = 1; step < kSteps; step += 2) {
    ASSERT_TRUE(cluster.WaitForStep("rl", step)) << cluster.Why("rl");
    const int64_t shown = cluster.Get("rl").revision();
    CutPower(cluster, random);
    EXPECT_GE(cluster.Get("rl").revision(), shown);
    // If the update under way consumes a lost payload, the job redoes what follows its checkpoint.
    EXPECT_GE(cluster.Get("rl").step(), step - step % kSaveFreq);
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
