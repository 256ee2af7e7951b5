#include "sdk/worker/checkpoint_files.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/base/test_syncs.h"
#include "sdk/common/rpc/error.h"

namespace baton {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CheckpointFilesTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::string& content) {
    ASSERT_TRUE(WriteCheckpointFile(folder_.path(name), content).ok());
  }
  // The controller's handling of a rank's report.
  void Complete() {
    v1::TaskResult result;
    ASSERT_TRUE(ReportCheckpointFiles(folder_.path(), result).ok());
    v1::CheckpointManifest manifest;
    *manifest.mutable_files() = result.files();
    std::string json;
    ASSERT_TRUE(google::protobuf::util::MessageToJsonString(manifest, &json).ok());
    Write("files.json", json);
  }
  std::string Problem() {
    const absl::Status status = VerifyCheckpointFiles(folder_.path());
    EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kDataLoss) << status;
    return std::string(status.message());
  }

  const TestFolder folder_;
};

TEST_F(CheckpointFilesTest, ReportsPathsSizesAndChecksums) {
  Write("trainer.json", "");
  Write("actor/weights", "a");
  v1::TaskResult result;
  ASSERT_TRUE(ReportCheckpointFiles(folder_.path(), result).ok());
  ASSERT_EQ(result.files_size(), 2);
  EXPECT_EQ(result.files(0).path(), "actor/weights");
  EXPECT_EQ(result.files(0).size_bytes(), 1);
  EXPECT_EQ(result.files(1).path(), "trainer.json");
  EXPECT_EQ(result.files(1).xxh3(), "2d06800538d394c2");  // XXH3-64 of nothing, seed 0
}

// A reported checkpoint survives a power cut: each file is synced, and each folder that names one.
TEST_F(CheckpointFilesTest, SyncsWhatItReports) {
  Write("actor/a.bin", "abc");
  Write("meta.json", "{}");
  TestSyncs::Take();
  v1::TaskResult result;
  ASSERT_TRUE(ReportCheckpointFiles(folder_.path(), result).ok());
  EXPECT_THAT(TestSyncs::Take(),
              ::testing::IsSupersetOf({folder_.path("actor/a.bin"), folder_.path("meta.json"),
                                       folder_.path("actor"), folder_.path()}));
}

TEST_F(CheckpointFilesTest, ReportsTheFilesOfOneRoleAlone) {
  Write("trainer.json", "");
  Write("critic/weights", "a");
  Write("critic/deeper/tokenizer", "b");
  Write("critic.json", "c");
  v1::TaskResult result;
  ASSERT_TRUE(ReportCheckpointFiles(folder_.path(), {"critic.json", "critic"}, result).ok());
  ASSERT_EQ(result.files_size(), 3);
  EXPECT_EQ(result.files(0).path(), "critic.json");
  EXPECT_EQ(result.files(1).path(), "critic/deeper/tokenizer");
  EXPECT_EQ(result.files(2).path(), "critic/weights");
  const absl::Status missing = ReportCheckpointFiles(folder_.path(), {"critic", "nothing"}, result);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("/nothing"));
}

TEST_F(CheckpointFilesTest, SaysWhichFilesHoldTheOptimizersState) {
  Write("trainer.json", "");
  Write("actor/weights", "a");
  Write("optimizer/rank-0", "b");
  Write("optimizer/rank-1", "c");
  v1::TaskResult result;
  ASSERT_TRUE(
      ReportCheckpointFiles(folder_.path(), {"actor", "trainer.json"}, result, {"optimizer"}).ok());
  ASSERT_EQ(result.files_size(), 4);
  for (const v1::FileHash& file : result.files()) {
    EXPECT_EQ(file.optimizer(), file.path().rfind("optimizer/", 0) == 0) << file.path();
  }
}

TEST_F(CheckpointFilesTest, ACheckpointWithWeightsOnlyServesNoTraining) {
  Write("actor/weights", "a");
  v1::TaskResult result;
  ASSERT_TRUE(ReportCheckpointFiles(folder_.path(), result).ok());
  v1::CheckpointManifest manifest;
  *manifest.mutable_files() = result.files();
  v1::FileHash& being_removed = *manifest.add_files();
  being_removed.set_path("critic_optimizer.safetensors");
  being_removed.set_optimizer(true);
  manifest.add_removed()->set_path("optimizer.safetensors");
  std::string json;
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(manifest, &json).ok());
  Write("files.json", json);
  const absl::Status refused = VerifyCheckpointFiles(folder_.path());
  EXPECT_EQ(ErrorReason(refused), "CHECKPOINT_WEIGHTS_ONLY") << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("optimizer.safetensors was removed"));
  EXPECT_TRUE(VerifyCheckpointFiles(folder_.path(), CheckpointUse::kWeights).ok());
  Write("actor/weights", "b");
  EXPECT_EQ(VerifyCheckpointFiles(folder_.path(), CheckpointUse::kWeights).code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(CheckpointFilesTest, AgreesWithWhatWasSaved) {
  Write("actor/weights", std::string(3 << 20, 'w'));
  Write("trainer.json", "{}");
  EXPECT_EQ(Problem(), "");  // nothing to compare with
  Complete();
  Write("job.json", "the controller's");
  EXPECT_EQ(Problem(), "");
}

TEST_F(CheckpointFilesTest, NamesTheFileThatDiffers) {
  Write("actor/weights", std::string(100, 'w'));
  Write("trainer.json", "{}");
  Complete();
  std::string damaged(100, 'w');
  damaged[50] ^= 1;
  Write("actor/weights", damaged);
  EXPECT_THAT(Problem(), HasSubstr(folder_.path("actor/weights") + " is not what was saved"));
  Write("actor/weights", std::string(99, 'w'));
  EXPECT_THAT(Problem(), HasSubstr("99 bytes"));
  fs::remove(folder_.path("actor/weights"));
  EXPECT_THAT(Problem(), HasSubstr("actor/weights"));
  Write("files.json", "{");
  EXPECT_THAT(Problem(), HasSubstr("files.json cannot be read"));
}

TEST_F(CheckpointFilesTest, AManifestNamesFilesOfItsFolderAlone) {
  for (const char* path : {"../x", "/etc/hosts", "actor/../../x", "", "."}) {
    v1::CheckpointManifest manifest;
    manifest.add_files()->set_path(path);
    std::string json;
    ASSERT_TRUE(google::protobuf::util::MessageToJsonString(manifest, &json).ok());
    Write("files.json", json);
    EXPECT_NE(Problem().find("is not in its folder"), std::string::npos) << path;
  }
}

}  // namespace
}  // namespace baton
