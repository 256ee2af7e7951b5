#include "controller/runtime/controller/backup.h"

#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "baton/store/v1/rows.pb.h"
#include "controller/runtime/files/move_root.h"
#include "controller/runtime/rows/tables.h"
#include "controller/store/memory_store.h"
#include "controller/store/sqlite_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class BackupTest : public ::testing::Test {
 protected:
  BackupTest() {
    auto store = store::SqliteStore::Open(root_.path("baton.db"));
    EXPECT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  void WriteUnder(const std::string& path, const std::string& content) const {
    root_.Write(path, content);
  }
  static std::string ReadFrom(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  void CommitRow(store::Write write) {
    std::promise<absl::Status> done;
    store_->Commit({std::move(write)}, [&](absl::Status status) { done.set_value(status); });
    ASSERT_TRUE(done.get_future().get().ok());
  }
  // A job whose newest checkpoint is that of `step`.
  store::v1::JobRow RowAt(int step) const {
    store::v1::JobRow row;
    row.mutable_job()->set_name("projects/p/jobs/j");
    row.mutable_job()->set_step(step);
    return row;
  }
  std::string CheckpointAt(int step) const {
    v1::Checkpoint checkpoint;
    checkpoint.set_path(root_.path(absl::StrCat("jobs/p/j/checkpoints/step-", step)));
    return checkpoint.SerializeAsString();
  }
  void PutJobAt(int step) {
    CommitRow({kJobTable, "projects/p/jobs/j", RowAt(step).SerializeAsString()});
    CommitRow({kCheckpointTable, NumberKey("projects/p/jobs/j", 1), CheckpointAt(step)});
  }
  static std::set<std::string> PathsOf(const BackupSet& set) {
    std::set<std::string> paths;
    for (const BackupFile& file : set.files()) paths.insert(file.path);
    return paths;
  }

  const TestFolder root_;
  std::unique_ptr<store::SqliteStore> store_;
};

TEST_F(BackupTest, HoldsAllFilesThatRowsNameEvenIfTheyAreDeleted) {
  WriteUnder("jobs/p/j/checkpoints/step-3/files.json", "{}");
  WriteUnder("jobs/p/j/checkpoints/step-3/actor/model", "weights");
  WriteUnder("jobs/p/j/checkpoints/step-4.1.tmp/actor/model", "half");
  WriteUnder("jobs/p/j/experience/00000001.log", "records");
  WriteUnder("files/0123/train.jsonl", "lines");
  WriteUnder("files/.upload-1-1", "half");
  // Names that users gave their files.
  for (const char* name : {"x.tmp", ".upload-x"}) {
    WriteUnder(absl::StrCat("files/p/0123/", name), "lines");
    WriteUnder(absl::StrCat("jobs/p/j/checkpoints/step-3/data/p/0123/", name), "lines");
  }
  WriteUnder("notes.txt", "somebody's");
  PutJobAt(3);
  auto set = BackupSet::Make(root_.path(), *store_);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(PathsOf(**set),
            (std::set<std::string>{"baton.db", "files/0123/train.jsonl", "files/p/0123/.upload-x",
                                   "files/p/0123/x.tmp", "jobs/p/j/checkpoints/step-3/actor/model",
                                   "jobs/p/j/checkpoints/step-3/data/p/0123/.upload-x",
                                   "jobs/p/j/checkpoints/step-3/data/p/0123/x.tmp",
                                   "jobs/p/j/checkpoints/step-3/files.json",
                                   "jobs/p/j/experience/00000001.log"}));
  EXPECT_EQ((*set)->files()[0].path, "baton.db");
  // Retention and new steps go on.
  fs::remove_all(root_.path("jobs/p/j/checkpoints/step-3"));
  PutJobAt(4);
  std::ofstream(root_.path("jobs/p/j/experience/00000001.log"), std::ios::app) << " and more";
  for (const BackupFile& file : (*set)->files()) {
    const std::string content =
        ReadFrom(file.place).substr(0, static_cast<size_t>(file.size_bytes));
    if (file.path == "jobs/p/j/checkpoints/step-3/actor/model") EXPECT_EQ(content, "weights");
    if (file.path == "jobs/p/j/experience/00000001.log") EXPECT_EQ(content, "records");
    if (file.path != "baton.db") continue;
    const std::string copy = root_.path("copy.db");
    std::ofstream(copy, std::ios::binary) << content;
    auto opened = store::SqliteStore::Open(copy);
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_EQ(**(*opened)->Get(kJobTable, "projects/p/jobs/j"), RowAt(3).SerializeAsString());
    EXPECT_EQ(**(*opened)->Get(kCheckpointTable, NumberKey("projects/p/jobs/j", 1)),
              CheckpointAt(3));
  }
  const std::string place = (*set)->files()[0].place;
  set->reset();
  EXPECT_FALSE(fs::exists(place));
}

// A store whose rows change while it is copied, `moves` times.
class MovingStore : public store::MemoryStore {
 public:
  MovingStore(store::SqliteStore* store, std::function<void(int)> on_copy)
      : store_(store), on_copy_(std::move(on_copy)) {}
  absl::Status CopyTo(const std::string& path) override {
    on_copy_(++copies_);
    return store_->CopyTo(path);
  }

 private:
  store::SqliteStore* const store_;
  const std::function<void(int)> on_copy_;
  int copies_ = 0;
};

// A folder without a job's row would keep the name from being used where the backup is restored.
TEST_F(BackupTest, AJobThatIsDeletedMeanwhileLeavesNothing) {
  WriteUnder("jobs/p/j/experience/00000001.log", "records");
  WriteUnder("jobs/p/lost/checkpoints/step-3/job.json", "{}");  // of no job that the store knows
  WriteUnder("jobs/p/.deleted-old/checkpoints/step-3/job.json", "{}");
  WriteUnder("jobs/p/.staging-1-1/model/config.json", "{}");
  MovingStore moving(store_.get(), [&](int) { fs::remove_all(root_.path("jobs/p/j")); });
  auto set = BackupSet::Make(root_.path(), moving);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(PathsOf(**set),
            (std::set<std::string>{"baton.db", "jobs/p/lost/checkpoints/step-3/job.json"}));
}

TEST_F(BackupTest, RestartsIfACheckpointVanishesMeanwhile) {
  PutJobAt(3);  // committed, and its folder already given way to the next one
  MovingStore moving(store_.get(), [&](int copy) {
    if (copy < 3) return;
    WriteUnder("jobs/p/j/checkpoints/step-3/files.json", "{}");
  });
  auto set = BackupSet::Make(root_.path(), moving);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT(PathsOf(**set), Contains("jobs/p/j/checkpoints/step-3/files.json"));
}

TEST_F(BackupTest, ComparesCheckpointsWithTheirFilesJson) {
  const std::string at = "jobs/p/j/checkpoints/step-3/";
  WriteUnder(at + "actor/model", "weights");
  WriteUnder(at + "actor/optimizer", "short");
  WriteUnder(at + "job.json", "{}");
  WriteUnder(at + "files.json",
             R"({"files": [{"path": "actor/model", "sizeBytes": 7, "xxh3": "0123456789abcdef"},
                           {"path": "actor/optimizer", "sizeBytes": 6, "xxh3": "0"},
                           {"path": "critic/model", "sizeBytes": 7, "xxh3": "0"}]})");
  // No row names it: a checkpoint that is being deleted looks like this.
  WriteUnder("jobs/p/j/checkpoints/step-2/files.json", R"({"files": [{"path": "actor/model"}]})");
  PutJobAt(3);
  auto set = BackupSet::Make(root_.path(), *store_);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_THAT((*set)->damaged(),
              ElementsAre(at + "actor/optimizer has 5 bytes, and its files.json says 6",
                          at + "critic/model is missing"));
  for (const BackupFile& file : (*set)->files()) {
    EXPECT_EQ(file.xxh3, file.path == at + "actor/model" ? "0123456789abcdef" : "") << file.path;
  }
  WriteUnder(at + "files.json",
             absl::StrCat(R"({"files": [{"path": ")", std::string(1 << 20, 'x'), R"("}]})"));
  EXPECT_LT((*BackupSet::Make(root_.path(), *store_))->damaged()[0].size(), 10'000u);
  WriteUnder(at + "files.json", "{");
  EXPECT_THAT((*BackupSet::Make(root_.path(), *store_))->damaged(),
              ElementsAre(at + "files.json is no JSON list of the checkpoint's files"));
  // Someone removed it; the checkpoint was not deleted.
  fs::remove(root_.path(at + "files.json"));
  EXPECT_THAT((*BackupSet::Make(root_.path(), *store_))->damaged(),
              ElementsAre(HasSubstr("files.json is missing")));
}

TEST_F(BackupTest, GivesUpInTheEndAndLeavesNothing) {
  PutJobAt(3);
  const absl::Status status = BackupSet::Make(root_.path(), *store_).status();
  EXPECT_EQ(ErrorReason(status), "BACKUP_OVERTAKEN");
  for (const auto& entry : fs::directory_iterator(root_.path())) {
    EXPECT_NE(entry.path().filename().string().rfind(".backup-", 0), 0u) << entry.path();
  }
  store::MemoryStore memory;
  EXPECT_EQ(BackupSet::Make(root_.path(), memory).status().code(),
            absl::StatusCode::kUnimplemented);
  WriteUnder(".backup-abc/baton.db", "of a process that died");
  RemoveUnfinishedBackups(root_.path());
  EXPECT_FALSE(fs::exists(root_.path(".backup-abc")));
}

TEST(MoveRootTest, PathsBelowTheOldRootLeadBelowTheNewOne) {
  store::v1::JobRow row;
  v1::Job& job = *row.mutable_job();
  job.mutable_effective_spec()->mutable_model()->set_path("/old/jobs/p/j/model");
  job.mutable_effective_spec()->mutable_data()->add_train_files("/old/files/1/a");
  job.mutable_effective_spec()->mutable_data()->add_train_files("files/1/a");
  job.mutable_effective_spec()->mutable_data()->add_train_files("/older/a");
  row.add_checkpoints()->set_path("/old/jobs/p/j/checkpoints/step-1");
  (*job.mutable_metrics())["/old/x"] = 1;
  EXPECT_TRUE(MovePaths("/old", "/new/place", &row));
  EXPECT_EQ(job.effective_spec().model().path(), "/new/place/jobs/p/j/model");
  EXPECT_EQ(job.effective_spec().data().train_files(0), "/new/place/files/1/a");
  EXPECT_EQ(job.effective_spec().data().train_files(1), "files/1/a");
  EXPECT_EQ(job.effective_spec().data().train_files(2), "/older/a");
  EXPECT_EQ(row.checkpoints(0).path(), "/new/place/jobs/p/j/checkpoints/step-1");
  EXPECT_FALSE(MovePaths("/old", "/new/place", &row));
}

TEST(MoveRootTest, RewritesThePathsInRowsForTheNewRoot) {
  store::MemoryStore store;
  ASSERT_TRUE(MoveRoot(store, "/old").ok());
  store::v1::JobRow row;
  row.mutable_job()->mutable_error()->set_message("/old/jobs/p/j/checkpoints/step-1 is damaged");
  v1::Checkpoint checkpoint;
  checkpoint.set_path("/old/jobs/p/j/checkpoints/step-1");
  v1::Job spec;
  spec.mutable_effective_spec()->mutable_model()->set_path("/old/jobs/p/j/model");
  store.Commit({{kJobTable, "j", row.SerializeAsString()},
                {kJobTable, "damaged", "\xff"},
                {kCheckpointTable, NumberKey("j", 1), checkpoint.SerializeAsString()},
                {kSpecTable, "j", spec.SerializeAsString()}},
               [](absl::Status) {});
  ASSERT_TRUE(MoveRoot(store, "/old").ok());
  EXPECT_EQ(**store.Get(kJobTable, "j"), row.SerializeAsString());
  ASSERT_TRUE(MoveRoot(store, "/new").ok());
  ASSERT_TRUE(row.ParseFromString(**store.Get(kJobTable, "j")));
  EXPECT_EQ(row.job().error().message(), "/new/jobs/p/j/checkpoints/step-1 is damaged");
  ASSERT_TRUE(checkpoint.ParseFromString(**store.Get(kCheckpointTable, NumberKey("j", 1))));
  EXPECT_EQ(checkpoint.path(), "/new/jobs/p/j/checkpoints/step-1");
  ASSERT_TRUE(spec.ParseFromString(**store.Get(kSpecTable, "j")));
  EXPECT_EQ(spec.effective_spec().model().path(), "/new/jobs/p/j/model");
  EXPECT_EQ(**store.Get(kJobTable, "damaged"), "\xff");
}

}  // namespace
}  // namespace baton::controller
