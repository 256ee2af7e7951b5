#include "controller/runtime/files/trash.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/runtime/controller/backup.h"
#include "controller/runtime/files/uploads.h"
#include "controller/runtime/job_files/checkpoint_files.h"
#include "controller/runtime/job_files/job_folders.h"
#include "controller/runtime/submit/contents_check.h"
#include "controller/store/sqlite_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

class TrashTest : public ::testing::Test {
 protected:
  /// The number of files in the trash whose names end with `end`.
  int InTrash(const std::string& end) const {
    int found = 0;
    std::error_code code;
    for (fs::recursive_directory_iterator entry(root_.path("trash"), code), last;
         !code && entry != last; entry.increment(code)) {
      if (absl::EndsWith(entry->path().string(), end)) ++found;
    }
    return found;
  }
  bool BecomesEmpty() const {
    const absl::Time limit = absl::Now() + absl::Seconds(20);
    while (absl::Now() < limit) {
      std::error_code code;
      if (fs::is_empty(root_.path("trash"), code)) return true;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return false;
  }
  void Move(const std::string& name) const {
    const absl::Status moved = MoveToTrash(root_.path(), root_.path(name));
    EXPECT_TRUE(moved.ok()) << moved;
    EXPECT_FALSE(fs::exists(fs::symlink_status(root_.path(name))));
  }

  const TestFolder root_;
};

TEST_F(TrashTest, AFolderIsMovedWhole) {
  root_.Write("jobs/p/add/checkpoints/step-1/actor/model", "weights");
  root_.Write("jobs/p/other/experience/1.log", "records");
  Move("jobs/p/add");
  EXPECT_EQ(InTrash("-add/checkpoints/step-1/actor/model"), 1);
  EXPECT_TRUE(fs::exists(root_.path("jobs/p/other/experience/1.log")));
  root_.Write("jobs/p/add/checkpoints/step-1/actor/model", "of the next job of that name");
  Move("jobs/p/add");
  EXPECT_EQ(InTrash("-add/checkpoints/step-1/actor/model"), 2);
}

TEST_F(TrashTest, MovingAMissingFolderIsNoError) {
  Move("jobs/p/add");
  root_.Write("trash/x", "");
  Move("jobs/p/add");
}

TEST_F(TrashTest, ALinkIsMovedAndNotWhatItLeadsTo) {
  root_.Write("models/base/model", "weights");
  fs::create_directory_symlink(root_.path("models/base"), root_.path("link"));
  Move("link");
  const TrashRemover remover(root_.path());
  EXPECT_TRUE(BecomesEmpty());
  EXPECT_EQ(root_.Read("models/base/model"), "weights");
}

// Also removes what a crashed controller left.
TEST_F(TrashTest, EmptiesDeepWideAndReadOnlyFolders) {
  std::string deep = "trash/left-by-a-crash";
  for (int i = 0; i < 300; ++i) absl::StrAppend(&deep, "/d");
  root_.Write(deep + "/file", "text");
  for (int i = 0; i < 1500; ++i) root_.Write(absl::StrCat("jobs/p/wide/", i % 7, "/", i), "text");
  fs::permissions(root_.path("jobs/p/wide/3"), fs::perms::owner_read | fs::perms::owner_exec);
  root_.Write("models/base/model", "weights");
  fs::create_directory_symlink(root_.path("models"), root_.path("jobs/p/wide/link"));
  fs::create_symlink(root_.path("models/base/model"), root_.path("jobs/p/wide/1/link"));
  ASSERT_EQ(::mkfifo(root_.path("jobs/p/wide/pipe").c_str(), 0600), 0);
  const TrashRemover remover(root_.path());
  Move("jobs/p/wide");
  EXPECT_TRUE(BecomesEmpty());
  EXPECT_EQ(root_.Read("models/base/model"), "weights");
}

// A call that removed the files itself would keep others waiting if the files were many.
TEST_F(TrashTest, NoCallRemovesFilesItself) {
  root_.Write("jobs/p/gone/experience/1.log", "records");
  ASSERT_TRUE(RemoveJobFolder(root_.path(), root_.path("jobs/p/gone")).ok());
  EXPECT_EQ(InTrash("/experience/1.log"), 1);
  {
    StagedFolder staged(root_.path("jobs/p"), "uid");
    std::ofstream(staged.Stage("refused")) << "a model";
  }
  EXPECT_EQ(InTrash("-.staging-uid/refused"), 1);
  root_.Write("jobs/p/.staging-2/of-a-crash", "a model");
  CleanJobFolders(root_.path("jobs"), [](const std::string&) { return true; });
  EXPECT_EQ(InTrash("/of-a-crash"), 1);
  root_.Write(".checking-123456/filtered", "a data file");
  RemoveCheckFolders(root_.path());
  EXPECT_EQ(InTrash("/filtered"), 1);
  EXPECT_TRUE(fs::is_empty(root_.path("jobs/p")));
}

TEST_F(TrashTest, NoCallRemovesACheckpointItself) {
  const CheckpointFiles files(root_.path("jobs/p/add"), root_.path());
  root_.Write("jobs/p/add/checkpoints/step-1.1.tmp/actor/old", "of another try");
  root_.Write("jobs/p/add/checkpoints/step-2.1.tmp/actor/partial", "of this role before");
  ASSERT_TRUE(files.Prepare(2, 1, "actor").ok());
  EXPECT_EQ(InTrash("/actor/old"), 1);
  EXPECT_EQ(InTrash("/partial"), 1);
  root_.Write("jobs/p/add/checkpoints/step-2/actor/rolled-back", "weights");
  const auto saved = files.Commit(2, 1, store::v1::JobRow(), {});
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(InTrash("/actor/rolled-back"), 1);
  files.Delete(*saved);
  EXPECT_EQ(InTrash("-step-2/job.json"), 1);
}

TEST_F(TrashTest, NoCallRemovesABackupItself) {
  root_.Write("jobs/p/add/experience/1.log", "records");
  const auto store = store::SqliteStore::Open(root_.path("baton.db"));
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(BackupSet::Make(root_.path(), **store).ok());
  EXPECT_EQ(InTrash("/jobs/p/add/experience/1.log"), 1);
  root_.Write(".backup-of-a-crash/files/x", "an upload");
  RemoveUnfinishedBackups(root_.path());
  EXPECT_EQ(InTrash("-.backup-of-a-crash/files/x"), 1);
}

TEST_F(TrashTest, NoCallRemovesAnUploadItself) {
  Uploads uploads(root_.path(), [](const std::string&) { return 0; });
  ASSERT_TRUE(uploads.Open().ok());
  {
    const auto broken_off = uploads.Receive("p", "half.jsonl");
    ASSERT_TRUE(broken_off->Append("half").ok());
  }
  EXPECT_EQ(InTrash(""), 1);
  const auto old = uploads.Receive("p", "old.jsonl");
  ASSERT_TRUE(old->Append("whole").ok());
  ASSERT_TRUE(old->Keep().ok());
  EXPECT_EQ(uploads.RemoveUnnamed({}, absl::InfiniteFuture(), [] { return false; }).files, 1);
  EXPECT_EQ(InTrash("-old.jsonl"), 1);
}

}  // namespace
}  // namespace baton::controller
