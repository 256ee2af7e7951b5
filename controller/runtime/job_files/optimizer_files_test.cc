#include "controller/runtime/job_files/optimizer_files.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "baton/v1/worker_service.pb.h"
#include "controller/runtime/files/file_copy.h"
#include "controller/runtime/files/folder_lock.h"
#include "controller/runtime/files/json_file.h"
#include "controller/runtime/job_files/checkpoint_copy.h"
#include "controller/runtime/job_files/checkpoint_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class OptimizerFilesTest : public ::testing::Test {
 protected:
  /// A complete checkpoint: weights of 100 bytes, and two optimizers of 200 bytes together.
  v1::Checkpoint Saved(int64_t step) {
    const CheckpointFiles files(folder_.path("job"), folder_.path());
    const fs::path temporary = *files.Prepare(step, 1, "actor");
    std::vector<v1::FileHash> written;
    const auto write = [&](const char* name, size_t bytes, bool optimizer) {
      fs::create_directories((temporary / name).parent_path());
      std::ofstream(temporary / name) << std::string(bytes, 'x');
      v1::FileHash& file = written.emplace_back();
      file.set_path(name);
      file.set_size_bytes(static_cast<int64_t>(bytes));
      file.set_xxh3(*HashOfFile(temporary / name));
      if (optimizer) file.set_optimizer(true);
    };
    write("actor/model.safetensors", 100, false);
    write("optimizer.safetensors", 150, true);
    write("critic_optimizer.safetensors", 50, true);
    const auto saved = files.Commit(step, 1, {}, written);
    EXPECT_TRUE(saved.ok()) << saved.status();
    return *saved;
  }
  absl::StatusOr<int64_t> Remove(const v1::Checkpoint& checkpoint) {
    return RemoveOptimizer(folder_.path(), checkpoint.path());
  }
  static bool HasFile(const v1::Checkpoint& checkpoint, const char* name) {
    return fs::exists(fs::path(checkpoint.path()) / name);
  }

  const TestFolder folder_;
};

TEST_F(OptimizerFilesTest, RemovesThoseFilesAloneAndSaysSoInTheFolder) {
  const v1::Checkpoint saved = Saved(2);
  EXPECT_EQ(saved.optimizer_bytes(), 200);
  EXPECT_FALSE(saved.weights_only());
  EXPECT_TRUE(CheckHasOptimizer(saved.path()).ok());
  const auto freed = Remove(saved);
  ASSERT_TRUE(freed.ok()) << freed.status();
  EXPECT_EQ(*freed, 200);
  EXPECT_FALSE(HasFile(saved, "optimizer.safetensors"));
  EXPECT_FALSE(HasFile(saved, "critic_optimizer.safetensors"));
  EXPECT_TRUE(HasFile(saved, "actor/model.safetensors"));
  v1::CheckpointManifest manifest;
  ASSERT_TRUE(ReadJsonFile(saved.path() + "/files.json", &manifest).ok());
  ASSERT_EQ(manifest.files_size(), 1);
  EXPECT_EQ(manifest.files(0).path(), "actor/model.safetensors");
  EXPECT_EQ(manifest.removed_size(), 2);
  v1::Checkpoint measured;
  MeasureCheckpoint(saved.path(), &measured);
  EXPECT_TRUE(measured.weights_only());
  EXPECT_EQ(measured.optimizer_bytes(), 0);
  EXPECT_LT(measured.size_bytes(), saved.size_bytes() - 150);
  EXPECT_EQ(*Remove(saved), 0) << "again";
}

TEST_F(OptimizerFilesTest, TheRestIsRemovedAfterACrash) {
  const v1::Checkpoint saved = Saved(2);
  const fs::path kept = folder_.path("kept");
  fs::copy(saved.path(), kept, fs::copy_options::recursive);
  ASSERT_TRUE(Remove(saved).ok());
  // files.json was written, and one of the files was removed.
  fs::copy_file(kept / "critic_optimizer.safetensors",
                fs::path(saved.path()) / "critic_optimizer.safetensors");
  EXPECT_EQ(*Remove(saved), 50);
  EXPECT_FALSE(HasFile(saved, "critic_optimizer.safetensors"));
}

// A worker can write into the folder of a checkpoint. A link that it puts there must not make the
// controller overwrite a file elsewhere.
TEST_F(OptimizerFilesTest, ALinkInTheFolderLeadsNowhere) {
  const v1::Checkpoint saved = Saved(2);
  const fs::path outside = folder_.path("outside");
  std::ofstream(outside) << "of another job";
  fs::create_symlink(outside, fs::path(saved.path()) / "files.json.new");
  EXPECT_EQ(*Remove(saved), 200);
  std::string text;
  std::getline(std::ifstream(outside), text);
  EXPECT_EQ(text, "of another job");
  EXPECT_TRUE(HasWeightsOnly(saved.path()));
}

TEST_F(OptimizerFilesTest, ACheckpointThatIsGoneNeedsNothing) {
  const v1::Checkpoint saved = Saved(2);
  fs::remove_all(saved.path());
  EXPECT_EQ(*Remove(saved), 0);
  EXPECT_FALSE(fs::exists(saved.path()));
}

TEST_F(OptimizerFilesTest, LinksOfOtherJobsKeepTheirFiles) {
  const v1::Checkpoint saved = Saved(2);
  const auto parts = PartsOf(saved.path(), {});
  ASSERT_TRUE(parts.ok()) << parts.status();
  const fs::path copy = folder_.path("copy");
  ASSERT_TRUE(CopyCheckpoint(saved.path(), *parts, copy).ok());
  EXPECT_EQ(*Remove(saved), 0) << "the copy has the same files";
  EXPECT_TRUE(CheckHasOptimizer(copy).ok());
  EXPECT_EQ(fs::file_size(copy / "optimizer.safetensors"), 150u);
  EXPECT_TRUE(PartsOf(copy, {}).ok());
}

TEST_F(OptimizerFilesTest, ACheckpointKeepsItsFilesWhileAJobCopiesThem) {
  const v1::Checkpoint saved = Saved(2);
  // A file that others may write is copied byte by byte.
  fs::permissions(fs::path(saved.path()) / "actor/model.safetensors", fs::perms(0666));
  const auto parts = PartsOf(saved.path(), {});
  ASSERT_TRUE(parts.ok()) << parts.status();
  int asked = 0;
  const absl::Status copied = CopyCheckpoint(saved.path(), *parts, folder_.path("copy"), [&] {
    ++asked;
    EXPECT_TRUE(absl::IsAborted(Remove(saved).status()));
    return false;
  });
  EXPECT_TRUE(copied.ok()) << copied;
  EXPECT_GT(asked, 0);
  EXPECT_TRUE(HasFile(saved, "optimizer.safetensors"));
  EXPECT_EQ(*Remove(saved), 0) << "the copy has links to them";
  EXPECT_FALSE(HasFile(saved, "optimizer.safetensors"));
}

TEST_F(OptimizerFilesTest, AnErrorNamesTheCheckpointTheSettingAndTheNewestWithTheOptimizer) {
  const v1::Checkpoint second = Saved(2), fourth = Saved(4), sixth = Saved(6);
  const auto before = PartsOf(second.path(), {});
  ASSERT_TRUE(before.ok());
  ASSERT_TRUE(Remove(second).ok() && Remove(fourth).ok());
  const absl::Status refused = CheckHasOptimizer(second.path());
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(refused), "CHECKPOINT_WEIGHTS_ONLY");
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr(second.path()), HasSubstr("trainer.keep_optimizer"),
                    HasSubstr("go on from " + sixth.path()), Not(HasSubstr(fourth.path()))));
  EXPECT_EQ(ErrorReason(PartsOf(second.path(), {}).status()), "CHECKPOINT_WEIGHTS_ONLY");
  // They were removed between the look and the copy.
  const absl::Status late = CopyCheckpoint(second.path(), *before, folder_.path("copy"));
  EXPECT_EQ(ErrorReason(late), "CHECKPOINT_WEIGHTS_ONLY") << late;
  EXPECT_FALSE(fs::exists(folder_.path("copy")));
}

TEST_F(OptimizerFilesTest, ACheckpointWithoutSuchFilesIsLeftAsItIs) {
  const CheckpointFiles files(folder_.path("job"), folder_.path());
  const fs::path temporary = *files.Prepare(2, 1, "actor");
  std::ofstream(temporary / "all.bin") << "weights and moments";
  v1::FileHash file;
  file.set_path("all.bin");
  file.set_size_bytes(19);
  const auto saved = files.Commit(2, 1, {}, {file});
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_FALSE(saved->has_optimizer_bytes());
  EXPECT_EQ(*Remove(*saved), 0);
  EXPECT_TRUE(CheckHasOptimizer(saved->path()).ok());
  EXPECT_TRUE(HasFile(*saved, "all.bin"));
}

}  // namespace
}  // namespace baton::controller
