#include "controller/runtime/job_files/checkpoint_files.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kIncarnation = 2;

class CheckpointFilesTest : public ::testing::Test {
 protected:
  static void Write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  static std::string Read(const fs::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  const TestFolder folder_;
};

store::v1::JobRow SomeRow(uint64_t version) {
  store::v1::JobRow row;
  row.mutable_job()->set_name("projects/default/jobs/add");
  row.mutable_job()->set_policy_version(version);
  row.add_spent()->set_last(31);
  return row;
}

TEST_F(CheckpointFilesTest, CommitsACheckpointAtomically) {
  const CheckpointFiles files(folder_.path("job"), folder_.path());
  auto temporary = files.Prepare(4, kIncarnation, "actor");
  ASSERT_TRUE(temporary.ok()) << temporary.status();
  EXPECT_FALSE(fs::exists(files.PathOf(4)));
  Write(*temporary + "/actor/model.safetensors", std::string(100, 'w'));
  v1::FileHash hash;
  hash.set_path("actor/model.safetensors");
  hash.set_size_bytes(100);
  hash.set_xxh3("0123456789abcdef");
  auto checkpoint = files.Commit(4, kIncarnation, SomeRow(7), {hash});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->step(), 4);
  EXPECT_EQ(checkpoint->policy_version(), 7u);
  EXPECT_EQ(checkpoint->path(), folder_.path("job/checkpoints/step-4"));
  EXPECT_FALSE(fs::exists(*temporary));
  EXPECT_EQ(Read(checkpoint->path() + "/actor/model.safetensors"), std::string(100, 'w'));
  const std::string json = Read(checkpoint->path() + "/job.json");
  const std::string manifest_json = Read(checkpoint->path() + "/files.json");
  EXPECT_EQ(checkpoint->size_bytes(),
            static_cast<int64_t>(100 + json.size() + manifest_json.size()));
  v1::CheckpointManifest manifest;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(manifest_json, &manifest).ok());
  EXPECT_EQ(manifest.step(), 4);
  ASSERT_EQ(manifest.files_size(), 1);
  EXPECT_EQ(manifest.files(0).DebugString(), hash.DebugString());
  store::v1::JobRow row;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(json, &row).ok());
  EXPECT_EQ(row.DebugString(), SomeRow(7).DebugString());
}

TEST_F(CheckpointFilesTest, PrepareRemovesFilesOfAnEarlierTry) {
  const CheckpointFiles files(folder_.path(), folder_.path());
  Write(*files.Prepare(2, kIncarnation, "actor") + "/actor/half", "written");
  auto again = files.Prepare(2, kIncarnation, "actor");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(fs::is_empty(*again));
}

// A role that tries again finds the folder without its own files, and the others' as they were.
TEST_F(CheckpointFilesTest, PrepareRemovesOnlyTheRolesOwnFiles) {
  const CheckpointFiles files(folder_.path(), folder_.path());
  const std::map<std::string, std::vector<std::string>> parts = {
      {"actor", {"actor/weights", "optimizer.safetensors", "trainer.json"}},
      {"critic", {"critic/weights", "critic_optimizer.safetensors", "critic.json"}},
      {"cost_critic",
       {"cost_critic/weights", "cost_critic_optimizer.safetensors", "cost_critic.json"}}};
  for (const auto& [again, own] : parts) {
    const std::string folder = *files.Prepare(2, kIncarnation, again);
    for (const auto& [role, names] : parts) {
      for (const std::string& name : names) Write(folder + "/" + name, "x");
    }
    ASSERT_TRUE(files.Prepare(2, kIncarnation, again).ok());
    for (const auto& [role, names] : parts) {
      for (const std::string& name : names) {
        EXPECT_EQ(fs::exists(folder + "/" + name), role != again) << again << " " << name;
      }
    }
  }
}

TEST_F(CheckpointFilesTest, PrepareRemovesUnfinishedCheckpointsOfOtherSteps) {
  const CheckpointFiles files(folder_.path(), folder_.path());
  const std::string left = *files.Prepare(2, kIncarnation, "actor");
  ASSERT_TRUE(files.Prepare(3, kIncarnation, "actor").ok());
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(CheckpointFilesTest, RefusesACheckpointWithMissingOrWrongFiles) {
  const CheckpointFiles files(folder_.path(), folder_.path());
  v1::FileHash hash;
  hash.set_path("actor/weights");
  hash.set_size_bytes(3);
  const std::string temporary = *files.Prepare(2, kIncarnation, "actor");
  EXPECT_EQ(files.Commit(2, kIncarnation, SomeRow(1), {hash}).status().code(),
            absl::StatusCode::kDataLoss);
  Write(temporary + "/actor/weights", "more than three");
  auto wrong = files.Commit(2, kIncarnation, SomeRow(1), {hash});
  EXPECT_EQ(wrong.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(wrong.status().message()), ::testing::HasSubstr("actor/weights"));
  EXPECT_FALSE(fs::exists(files.PathOf(2)));
  Write(temporary + "/actor/weights", "abc");
  EXPECT_TRUE(files.Commit(2, kIncarnation, SomeRow(1), {hash}).ok());
}

TEST_F(CheckpointFilesTest, AStepThatWasRolledBackIsReplaced) {
  const CheckpointFiles files(folder_.path(), folder_.path());
  Write(*files.Prepare(2, kIncarnation, "actor") + "/actor/weights", "old");
  ASSERT_TRUE(files.Commit(2, kIncarnation, SomeRow(1), {}).ok());
  Write(*files.Prepare(2, kIncarnation, "actor") + "/actor/weights", "new");
  EXPECT_EQ(Read(files.PathOf(2) + "/actor/weights"), "old");  // until the new one is whole
  ASSERT_TRUE(files.Commit(2, kIncarnation, SomeRow(2), {}).ok());
  EXPECT_EQ(Read(files.PathOf(2) + "/actor/weights"), "new");
}

TEST_F(CheckpointFilesTest, DeletesOnlyTheFolderOfItsCheckpoint) {
  const CheckpointFiles files(folder_.path(), folder_.path());
  ASSERT_TRUE(files.Prepare(1, kIncarnation, "actor").ok());
  auto first = files.Commit(1, kIncarnation, SomeRow(1), {});
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(files.Prepare(2, kIncarnation, "actor").ok());
  ASSERT_TRUE(files.Commit(2, kIncarnation, SomeRow(2), {}).ok());
  files.Delete(*first);
  EXPECT_FALSE(fs::exists(files.PathOf(1)));
  EXPECT_TRUE(fs::exists(files.PathOf(2)));
}

TEST_F(CheckpointFilesTest, ErrorsNameThePath) {
  Write(folder_.path("job"), "a file where the job's folder should be");
  const CheckpointFiles files(folder_.path("job"), folder_.path());
  auto prepared = files.Prepare(1, kIncarnation, "actor");
  EXPECT_FALSE(prepared.ok());
  EXPECT_THAT(std::string(prepared.status().message()), ::testing::HasSubstr(folder_.path()));
  const CheckpointFiles other(folder_.path("other"), folder_.path());
  EXPECT_FALSE(other.Commit(1, kIncarnation, SomeRow(1), {}).ok());  // never prepared
}

// Neither the file names that a worker reports nor those in users' specs may lead out of the
// folder.
TEST_F(CheckpointFilesTest, RefusesFilesOutsideTheCheckpoint) {
  Write(folder_.path("secret"), "12345");
  const CheckpointFiles files(folder_.path("job"), folder_.path());
  for (const std::string& path :
       {std::string("../../../secret"), folder_.path("secret"), std::string("actor/../../x"),
        std::string(), std::string("."), std::string("actor//x")}) {
    ASSERT_TRUE(files.Prepare(4, kIncarnation, "actor").ok());
    v1::FileHash hash;
    hash.set_path(path);
    hash.set_size_bytes(5);
    const absl::Status refused = files.Commit(4, kIncarnation, SomeRow(7), {hash}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << path;
    EXPECT_FALSE(fs::exists(files.PathOf(4))) << path;
  }
  store::v1::JobRow row = SomeRow(7);
  row.mutable_job()->mutable_effective_spec()->mutable_data()->add_train_files("files/../secret");
  ASSERT_TRUE(files.Prepare(5, kIncarnation, "actor").ok());
  ASSERT_TRUE(files.Commit(5, kIncarnation, row, {}).ok());
  EXPECT_FALSE(fs::exists(files.PathOf(5) + "/secret"));
  EXPECT_FALSE(fs::exists(files.PathOf(5) + "/data"));
}

}  // namespace
}  // namespace baton::controller
