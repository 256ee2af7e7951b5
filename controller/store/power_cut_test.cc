// Commits that SqliteStore keeps when the power is cut, over seeds.
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <random>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "controller/store/power_cut_disk.h"
#include "controller/store/sqlite_store.h"
#include "gtest/gtest.h"

namespace baton::store {
namespace {

namespace fs = std::filesystem;
using SyncMode = SqliteOptions::Sync;

constexpr int kSeeds = 60;

// Only PowerCutDisk decides what counts as synced, so the files need no real disk.
std::string MemoryFolder() {
  const std::string root = fs::is_directory("/dev/shm") ? "/dev/shm/" : ::testing::TempDir();
  return absl::StrCat(root, "power_cut_test_", ::getpid(), "_");
}

// Commits numbered from 1, each with a row of its own and its number under "last".
class PowerCutRun {
 public:
  PowerCutRun(unsigned seed, SyncMode sync, int percent_synced) : random_(seed) {
    folder_ = absl::StrCat(MemoryFolder(), "power_cut");
    fs::remove_all(folder_);
    fs::create_directories(folder_ + "/after");
    auto disk = std::make_unique<PowerCutDisk>();
    SqliteOptions options;
    options.sync = sync;
    auto store = SqliteStore::Open(folder_ + "/baton.db", options);
    EXPECT_TRUE(store.ok()) << store.status();
    const int commits = 1 + static_cast<int>(random_() % 60);
    for (int i = 1; i <= commits; ++i) {
      const bool synced = static_cast<int>(random_() % 100) < percent_synced;
      // Rows of a few pages too, so that the journal is carried over into the file now and then.
      const std::string value(random_() % 20'000, 'x');
      (*store)->Commit({{"t", absl::StrCat("row-", absl::Dec(i, absl::kZeroPad4)), value},
                        {"t", "last", absl::StrCat(i)}},
                       synced ? Durability::kPowerCut : Durability::kProcess,
                       [this, i, synced](const absl::Status& status) {
                         EXPECT_TRUE(status.ok());
                         absl::MutexLock lock(&mu_);
                         answered_ = i;
                         if (synced) answered_synced_ = i;
                       });
      if (random_() % 3 == 0) WaitFor(i);
    }
    WaitFor(1 + static_cast<int>(random_() % static_cast<unsigned>(commits)));
    {
      absl::MutexLock lock(&mu_);
      promised_ = answered_synced_;
      shown_ = answered_;
    }
    disk->CutInto(folder_ + "/after", random_);
    store->reset();
    disk.reset();
    ReadAfter();
    fs::remove_all(folder_);
  }

  int promised() const { return promised_; }  // the newest answered commit that asked for it
  int shown() const { return shown_; }        // the newest answered commit
  int left() const { return left_; }          // the newest commit after the cut

 private:
  void WaitFor(int commit) {
    absl::MutexLock lock(&mu_);
    auto there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return answered_ >= commit; };
    EXPECT_TRUE(mu_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(30)));
  }

  void ReadAfter() {
    auto store = SqliteStore::Open(folder_ + "/after/baton.db");
    ASSERT_TRUE(store.ok()) << store.status();
    const auto last = (*store)->Get("t", "last");
    ASSERT_TRUE(last.ok()) << last.status();
    left_ = last->has_value() ? std::stoi(**last) : 0;
    const auto rows = (*store)->Scan("t", {"row-", "row.", 0, false});
    ASSERT_TRUE(rows.ok()) << rows.status();
    ASSERT_EQ(static_cast<int>(rows->size()), left_) << "not all commits up to one";
    for (int i = 1; i <= left_; ++i) {
      EXPECT_EQ((*rows)[static_cast<size_t>(i - 1)].key,
                absl::StrCat("row-", absl::Dec(i, absl::kZeroPad4)));
    }
  }

  std::mt19937 random_;
  std::string folder_;
  absl::Mutex mu_;
  int answered_ ABSL_GUARDED_BY(mu_) = 0;
  int answered_synced_ ABSL_GUARDED_BY(mu_) = 0;
  int promised_ = 0, shown_ = 0, left_ = 0;
};

TEST(PowerCutTest, SyncedCommitsSurviveWithAllCommitsBeforeThem) {
  int lost = 0;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    const PowerCutRun run(seed, SyncMode::kAsked, 20);
    EXPECT_GE(run.left(), run.promised()) << seed;
    if (run.left() < run.shown()) ++lost;
  }
  EXPECT_GT(lost, 0) << "this disk loses nothing, so it proves nothing";
}

TEST(PowerCutTest, EverythingIsThereWhenAllIsSynced) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    const PowerCutRun run(seed, SyncMode::kAll, 20);
    EXPECT_GE(run.left(), run.shown()) << seed;
  }
}

TEST(PowerCutTest, WithoutSyncsTheDiskForgetsWhatWasAnswered) {
  int broken = 0;
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    const PowerCutRun run(seed, SyncMode::kNone, 20);
    if (run.left() < run.promised()) ++broken;
  }
  EXPECT_GT(broken, 0);
}

TEST(PowerCutTest, CommitsThatWaitTogetherAreSyncedOnce) {
  const std::string folder = absl::StrCat(MemoryFolder(), "power_cut_group");
  fs::remove_all(folder);
  fs::create_directories(folder);
  PowerCutDisk disk;
  auto store = SqliteStore::Open(folder + "/baton.db");
  ASSERT_TRUE(store.ok()) << store.status();
  absl::Mutex mu;
  int answered = 0;
  bool go = false;
  // The first answer holds the store's thread until all the others wait.
  (*store)->Commit({{"t", "first", ""}}, Durability::kProcess, [&](const absl::Status&) {
    absl::MutexLock lock(&mu);
    mu.Await(absl::Condition(&go));
    ++answered;
  });
  for (int i = 0; i < 200; ++i) {
    (*store)->Commit({{"t", absl::StrCat(i), ""}}, Durability::kPowerCut, [&](const absl::Status&) {
      absl::MutexLock lock(&mu);
      ++answered;
    });
  }
  const int64_t before = disk.syncs();
  absl::MutexLock lock(&mu);
  go = true;
  auto all = [&] { return answered == 201; };
  ASSERT_TRUE(mu.AwaitWithTimeout(absl::Condition(&all), absl::Seconds(30)));
  // One group, or two if the thread took its first group before all were there.
  EXPECT_LE(disk.syncs() - before, 4);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace baton::store
