// Power cuts in the middle of DeleteJob. The next start removes the folders of committed deletions,
// and no others.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "controller/runtime/controller/delete_job.h"
#include "controller/runtime/job_files/job_folders.h"
#include "controller/runtime/rows/tables.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/controller/whole_controller.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A store that cuts the power when the deletion of a job's row is committed: `left` is then what
/// the disk has of `jobs`, and nothing is written any more.
class StoreCutInDelete : public SharedStore {
 public:
  StoreCutInDelete(std::shared_ptr<store::Store> store, std::string jobs, std::string left)
      : SharedStore(std::move(store)), jobs_(std::move(jobs)), left_(std::move(left)) {}
  using Store::Commit;
  void Commit(std::vector<store::Write> writes, store::Durability durability, Done done) override {
    if (cut_) return done(absl::CancelledError("the power is off"));
    cut_ = std::any_of(writes.begin(), writes.end(), [](const store::Write& write) {
      return write.table == kJobTable && !write.value.has_value();
    });
    SharedStore::Commit(std::move(writes), durability, [this, done](absl::Status status) {
      if (cut_) fs::copy(jobs_, left_, fs::copy_options::recursive);
      done(std::move(status));
    });
  }

 private:
  const std::string jobs_, left_;
  std::atomic<bool> cut_{false};
};

class ControllerDeleteTest : public WholeControllerTest {
 protected:
  fs::path FolderOf(const std::string& id) const { return folder_.path("jobs/default/" + id); }
  void WriteText(const fs::path& path, const std::string& text) const {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  /// A job that has ended, with a checkpoint.
  void PutJob(const std::string& id) {
    ASSERT_TRUE(Create(Spec(), id).ok());
    WriteText(FolderOf(id) / "checkpoints/step-2/job.json", "{}");
    WriteText(FolderOf(id) / "checkpoints/step-2/files.json", "{}");
    v1::CancelJobRequest request;
    request.set_name(id);
    ASSERT_TRUE(Wait<v1::Job>([&](auto done) { controller_->CancelJob(request, done); }).ok());
  }
  absl::Status Delete(const std::string& id) {
    v1::DeleteJobRequest request;
    request.set_name(id);
    return Wait<v1::DeleteJobResponse>([&](auto done) { controller_->DeleteJob(request, done); })
        .status();
  }
  /// Afterwards no controller runs.
  void DeleteAndCutPower(const std::string& id) {
    StartOn(std::make_unique<StoreCutInDelete>(store_, folder_.path("jobs"), folder_.path("left")));
    ASSERT_TRUE(Delete(id).ok());
    controller_.reset();
    fs::remove_all(folder_.path("jobs"));
    fs::rename(folder_.path("left"), folder_.path("jobs"));
    ASSERT_TRUE(fs::exists(FolderOf(id) / "checkpoints/step-2/job.json"));
    ASSERT_FALSE(store_->Get(kJobTable, "projects/default/jobs/" + id)->has_value());
  }
  std::vector<store::Row> Removals() { return *store_->Scan(kRemovalTable, {}); }
};

TEST_F(ControllerDeleteTest, TheFolderGoesAtTheNextStart) {
  PutJob("add");
  PutJob("other");
  DeleteAndCutPower("add");
  EXPECT_THAT(Removals(), SizeIs(1));
  Start();
  EXPECT_FALSE(fs::exists(FolderOf("add")));
  EXPECT_TRUE(fs::exists(FolderOf("other") / "checkpoints/step-2/job.json"));
  EXPECT_THAT(Removals(), IsEmpty());
  // The name is free, and its next job keeps what it makes.
  PutJob("add");
  Start();
  EXPECT_TRUE(fs::exists(FolderOf("add") / "checkpoints/step-2/job.json"));
}

TEST_F(ControllerDeleteTest, DeletingAJobLeavesNoFiles) {
  PutJob("add");
  ASSERT_TRUE(Delete("add").ok());
  EXPECT_TRUE(fs::is_empty(folder_.path("jobs/default")));
  EXPECT_THAT(Removals(), IsEmpty());
}

// Without the store nothing shows that the deletion was committed, and the user may want the job
// back.
TEST_F(ControllerDeleteTest, WithoutTheStoreTheFolderStays) {
  PutJob("add");
  DeleteAndCutPower("add");
  store_ = std::make_shared<store::MemoryStore>();
  Start();
  EXPECT_TRUE(fs::exists(FolderOf("add") / "checkpoints/step-2/job.json"));
  EXPECT_EQ(ErrorReason(Create(Spec(), "add").status()), "JOB_FOLDER");
}

TEST_F(ControllerDeleteTest, AFolderThatWasPutThereSinceStays) {
  PutJob("add");
  DeleteAndCutPower("add");
  fs::remove_all(FolderOf("add"));
  WriteText(FolderOf("add") / "checkpoints/step-8/job.json", "of another");
  Start();
  EXPECT_TRUE(fs::exists(FolderOf("add") / "checkpoints/step-8/job.json"));
  EXPECT_THAT(Removals(), IsEmpty());
  ASSERT_TRUE(MarkDeleted(FolderOf("add"), "uid of another").ok());
  store::v1::RemovalRow removal;
  removal.set_uid("uid");
  store_->Commit({{kRemovalTable, "projects/default/jobs/add", removal.SerializeAsString()}},
                 [](const absl::Status&) {});
  Start();
  EXPECT_TRUE(fs::exists(FolderOf("add") / "checkpoints/step-8/job.json"));
}

TEST_F(ControllerDeleteTest, KeepsAJobWhoseDeletionWasNotCommitted) {
  PutJob("add");
  ASSERT_TRUE(MarkDeleted(FolderOf("add"), Get("add")->uid()).ok());
  Start();
  EXPECT_TRUE(fs::exists(FolderOf("add") / "checkpoints/step-2/job.json"));
  EXPECT_FALSE(IsMarkedDeleted(FolderOf("add"), Get("add")->uid()));
  ASSERT_TRUE(Delete("add").ok());
  EXPECT_FALSE(fs::exists(FolderOf("add")));
}

// A controller died before it had removed the files of deleted jobs.
TEST_F(ControllerDeleteTest, EmptiesTheTrashAfterAStart) {
  controller_.reset();
  WriteText(folder_.path("trash/1-add/checkpoints/step-2/actor/model"), "weights");
  Start();
  const absl::Time limit = absl::Now() + absl::Seconds(20);
  while (!fs::is_empty(folder_.path("trash")) && absl::Now() < limit) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_TRUE(fs::is_empty(folder_.path("trash")));
}

// While no controller runs.
TEST_F(ControllerDeleteTest, AStoredJobIsDeleted) {
  PutJob("add");
  ASSERT_TRUE(Create(Spec(), "waits").ok());
  PutJob("other");
  controller_.reset();
  const auto erase = [&](const std::string& id) {
    return DeleteStoredJob(*store_, folder_.path(), id);
  };
  EXPECT_EQ(ErrorReason(erase("gone")), "JOB_NOT_FOUND");
  EXPECT_EQ(ErrorReason(erase("waits")), "JOB_ACTIVE");
  ASSERT_TRUE(erase("add").ok());
  EXPECT_FALSE(fs::exists(FolderOf("add")));
  EXPECT_TRUE(fs::is_empty(folder_.path("trash")));
  EXPECT_THAT(Removals(), IsEmpty());
  for (const char* table : {kJobTable, kSpecTable, kEventTable, kLogTable, kOrderTable}) {
    const auto rows = store_->Scan(table, {});
    for (const store::Row& row : *rows) {
      EXPECT_EQ(row.key.find("jobs/add"), std::string::npos) << table;
      EXPECT_EQ(row.value.find("jobs/add\n"), std::string::npos) << table;
    }
  }
  // A job that kept controllers from starting.
  store::v1::RestoreRow quarantined;
  quarantined.set_quarantine("it was quarantined by hand");
  store_->Commit({{kRestoreTable, "projects/default/jobs/waits", quarantined.SerializeAsString()}},
                 [](const absl::Status&) {});
  EXPECT_TRUE(erase("projects/default/jobs/waits").ok());
  Start();
  EXPECT_EQ(ErrorReason(Get("add").status()), "JOB_NOT_FOUND");
  EXPECT_TRUE(Get("other").ok());
  EXPECT_TRUE(fs::exists(FolderOf("other") / "checkpoints/step-2/job.json"));
  EXPECT_TRUE(Create(Spec(), "add").ok());
}

// The power failed between the two renames of a job's folder, or while files on another file system
// than the data root were removed where they were.
TEST_F(ControllerDeleteTest, RemovesRemnantsOfDeletedJobsAtTheNextStart) {
  PutJob("add");
  WriteText(folder_.path("jobs/default/.deleted-gone/checkpoints/step-2/actor/model"), "weights");
  WriteText(folder_.path("jobs/default/.deleted-add/checkpoints/step-1/actor/model"), "weights");
  ASSERT_TRUE(Delete("add").ok());
  EXPECT_FALSE(fs::exists(folder_.path("jobs/default/.deleted-add")));
  Start();
  EXPECT_TRUE(fs::is_empty(folder_.path("jobs/default")));
}

// The controller dies while it deletes an old checkpoint of a job that saves no other one. The
// parts of a checkpoint that workers are writing stay.
TEST_F(ControllerDeleteTest, RemovesRemnantsOfDeletedCheckpointsAtTheNextStart) {
  PutJob("add");
  WriteText(FolderOf("add") / "checkpoints/.deleted-step-1.deleted.tmp/actor/model", "weights");
  WriteText(FolderOf("add") / "checkpoints/step-4.3.tmp/actor/model", "weights");
  Start();
  EXPECT_FALSE(fs::exists(FolderOf("add") / "checkpoints/.deleted-step-1.deleted.tmp"));
  EXPECT_TRUE(fs::exists(FolderOf("add") / "checkpoints/step-2/job.json"));
  EXPECT_TRUE(fs::exists(FolderOf("add") / "checkpoints/step-4.3.tmp/actor/model"));
}

}  // namespace
}  // namespace baton::controller
