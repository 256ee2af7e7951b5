#include "workers/engine/scalar/check_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "nlohmann/json.hpp"
#include "sdk/common/base/test_folder.h"
#include "tests/support/engine/scalar.h"
#include "workers/engine/model/hf_directory.h"
#include "workers/engine/scalar/scalar_directory.h"

namespace baton::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

class CheckWeightsTest : public ::testing::Test {
 protected:
  CheckWeightsTest() {
    config_.vocab_size = 40;
    config_.hidden_size = 16;
    config_.intermediate_size = 24;
    config_.num_hidden_layers = 2;
    config_.num_attention_heads = config_.num_key_value_heads = 2;
    config_.head_dim = 8;
    Save("model", /*max_shard_bytes=*/1 << 30);
  }
  void Save(const std::string& name, int64_t max_shard_bytes) const {
    const auto model = CausalLM::Create(config_, torch::kFloat32, torch::kCPU).value();
    SaveOptions options;
    options.max_shard_bytes = max_shard_bytes;
    EXPECT_TRUE(SaveModel(*model, Dir(name), options).ok());
  }
  std::string Dir(const std::string& name = "model") const { return folder_.path(name); }
  void SetConfig(const char* key, const nlohmann::json& value) const {
    nlohmann::json config = nlohmann::json::parse(folder_.Read("model/config.json"));
    config[key] = value;
    folder_.Write("model/config.json", config.dump());
  }
  std::string Problem(ScalarHead head = ScalarHead::kNone,
                      const std::string& name = "model") const {
    const absl::Status status = CheckWeights(Dir(name), head);
    // Weights that pass the check can be loaded, and the check names those that cannot.
    if (head == ScalarHead::kNone) {
      EXPECT_EQ(status.ok(), LoadModel(Dir(name), torch::kFloat32, torch::kCPU).ok()) << status;
    }
    return std::string(status.message());
  }

  TestFolder folder_;
  ModelConfig config_;
};

TEST_F(CheckWeightsTest, AModelAsItWasSavedIsGood) {
  EXPECT_EQ(Problem(), "");
  Save("shards", /*max_shard_bytes=*/4000);
  EXPECT_EQ(Problem(ScalarHead::kNone, "shards"), "");
  config_.tie_word_embeddings = true;
  config_.family = ModelConfig::Family::kQwen2;
  config_.attention_bias = true;
  Save("tied", 1 << 30);
  EXPECT_EQ(Problem(ScalarHead::kNone, "tied"), "");
}

TEST_F(CheckWeightsTest, NamesWhatIsMissing) {
  fs::remove(Dir() + "/model.safetensors");
  EXPECT_THAT(Problem(), HasSubstr("has neither model.safetensors nor"));
  Save("shards", /*max_shard_bytes=*/4000);
  for (const auto& entry : fs::directory_iterator(Dir("shards"))) {
    if (entry.path().string().find("model-00002") != std::string::npos) fs::remove(entry.path());
  }
  EXPECT_THAT(Problem(ScalarHead::kNone, "shards"), HasSubstr("model-00002"));
}

TEST_F(CheckWeightsTest, NamesATensorThatConfigJsonContradicts) {
  SetConfig("intermediate_size", 32);
  EXPECT_THAT(Problem(), AllOf(HasSubstr("has shape ["), HasSubstr("config.json makes it [")));
  SetConfig("intermediate_size", 24);
  SetConfig("num_hidden_layers", 3);
  EXPECT_THAT(Problem(), AllOf(HasSubstr("model.layers.2."), HasSubstr("is missing")));
  SetConfig("num_hidden_layers", 1);
  EXPECT_THAT(Problem(), AllOf(HasSubstr("model.layers.1."), HasSubstr("has no place")));
}

TEST_F(CheckWeightsTest, AFileThatWasCutIsDamaged) {
  const std::string file = Dir() + "/model.safetensors";
  fs::resize_file(file, fs::file_size(file) - 100);
  EXPECT_THAT(Problem(), HasSubstr("model.safetensors"));
}

TEST_F(CheckWeightsTest, AScorerNeedsItsHead) {
  EXPECT_EQ(Problem(ScalarHead::kOptional), "");  // what a critic starts from
  EXPECT_THAT(Problem(ScalarHead::kRequired),
              AllOf(HasSubstr("score.weight"), HasSubstr("is missing")));
  const auto made = testing::MakeScalar(torch::kFloat32, ModelConfig::Family::kLlama);
  ASSERT_TRUE(SaveScalarModel(*made.scalar, Dir("scorer")).ok());
  EXPECT_EQ(Problem(ScalarHead::kRequired, "scorer"), "");
  EXPECT_EQ(Problem(ScalarHead::kOptional, "scorer"), "");
}

}  // namespace
}  // namespace baton::engine
