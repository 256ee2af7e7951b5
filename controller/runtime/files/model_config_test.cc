#include "controller/runtime/files/model_config.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ModelConfigTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::string Model(const std::string& json) {
    std::ofstream(folder_ + "/config.json") << json;
    return folder_;
  }
  const std::string folder_ = ::testing::TempDir() + "/model_config_test";
};

TEST_F(ModelConfigTest, ReadsWhatIsThere) {
  const ModelConfig config =
      ReadModelConfig(Model(R"({"num_attention_heads": 8, "num_key_value_heads": 2,
                "architectures": ["LlamaForCausalLM"]})"));
  EXPECT_EQ(config.num_attention_heads, 8);
  EXPECT_EQ(config.num_key_value_heads, 2);
  EXPECT_EQ(config.architecture, "LlamaForCausalLM");
  EXPECT_EQ(ReadModelConfig(Model(R"({"num_attention_heads": 8})")).num_key_value_heads, 8);
}

TEST_F(ModelConfigTest, LeavesABrokenConfigToTheWorker) {
  for (const char* json :
       {"", "{", "[]", R"({"num_attention_heads": "8", "architectures": [3]})"}) {
    const ModelConfig config = ReadModelConfig(Model(json));
    EXPECT_EQ(config.num_attention_heads, 0) << json;
    EXPECT_EQ(config.architecture, "") << json;
  }
  EXPECT_EQ(ReadModelConfig(folder_ + "/nowhere").num_attention_heads, 0);
}

TEST_F(ModelConfigTest, RefusesAConfigThatIsNoFileOrTooLarge) {
  Model(R"({"num_attention_heads": 8})");
  EXPECT_EQ(ModelConfigProblem(folder_), "");
  fs::resize_file(folder_ + "/config.json", (1 << 20) + 1);
  EXPECT_THAT(ModelConfigProblem(folder_), HasSubstr("1048577 bytes, more than 1048576"));
  EXPECT_EQ(ReadModelConfig(folder_).num_attention_heads, 0);
  fs::remove(folder_ + "/config.json");
  EXPECT_THAT(ModelConfigProblem(folder_), HasSubstr("no config.json in "));
  ASSERT_EQ(::mkfifo((folder_ + "/config.json").c_str(), 0600), 0);  // opening it would block
  EXPECT_THAT(ModelConfigProblem(folder_), HasSubstr("is not a file"));
  EXPECT_EQ(ReadModelConfig(folder_).num_attention_heads, 0);
}

TEST_F(ModelConfigTest, ASlidingWindowDoesNotBoundThePositions) {
  const auto positions = [&](const std::string& more) {
    return ReadModelConfig(Model(R"({"max_position_embeddings": 32768, "model_type": )" + more))
        .positions();
  };
  EXPECT_EQ(positions(R"("mistral", "sliding_window": 1024})"), 32768);
  EXPECT_EQ(positions(R"("mistral", "sliding_window": null})"), 32768);
  EXPECT_EQ(positions(R"("mistral"})"), 32768);
}

TEST_F(ModelConfigTest, TensorParallelismHasToDivideTheHeads) {
  v1::JobSpec spec;
  spec.mutable_model()->set_path(Model(R"({"num_attention_heads": 8, "num_key_value_heads": 2})"));
  spec.mutable_actor()->mutable_parallel()->set_tp(2);
  EXPECT_TRUE(CheckModelConfigs(spec).empty());
  spec.mutable_actor()->mutable_parallel()->set_tp(4);
  ASSERT_EQ(CheckModelConfigs(spec).size(), 1u);
  EXPECT_EQ(CheckModelConfigs(spec)[0].field(), "spec.actor.parallel.tp");
  EXPECT_THAT(CheckModelConfigs(spec)[0].description(),
              HasSubstr("4 does not divide the model's 8 attention heads and 2 key-value heads"));
}

TEST_F(ModelConfigTest, TensorParallelismMustDivideTheHeadsOfARolesOwnModel) {
  v1::JobSpec spec;
  spec.mutable_model()->mutable_init()->set_num_attention_heads(6);
  spec.mutable_model()->mutable_init()->set_num_key_value_heads(6);
  spec.mutable_reward_model()->mutable_model()->set_path(
      Model(R"({"num_attention_heads": 8, "architectures": ["LlamaForSequenceClassification"]})"));
  for (v1::ScoringModelSpec* role : {spec.mutable_reward_model(), spec.mutable_reference()}) {
    role->mutable_parallel()->set_tp(3);
  }
  spec.mutable_critic()->mutable_train()->mutable_parallel()->set_tp(4);
  const auto violations = CheckModelConfigs(spec);
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[0].field(), "spec.critic.train.parallel.tp");
  EXPECT_EQ(violations[1].field(), "spec.reward_model.parallel.tp");
}

TEST_F(ModelConfigTest, ARewardModelNeedsAHead) {
  v1::JobSpec spec;
  spec.mutable_reward_model()->mutable_model()->set_path(
      Model(R"({"architectures": ["LlamaForCausalLM"]})"));
  ASSERT_EQ(CheckModelConfigs(spec).size(), 1u);
  EXPECT_EQ(CheckModelConfigs(spec)[0].field(), "spec.reward_model.model.path");
  EXPECT_THAT(CheckModelConfigs(spec)[0].description(), HasSubstr("LlamaForCausalLM"));
  Model(R"({"architectures": ["LlamaForSequenceClassification"]})");
  EXPECT_TRUE(CheckModelConfigs(spec).empty());
}

TEST_F(ModelConfigTest, AWholePromptAndResponseFitTheModelsPositions) {
  v1::JobSpec spec;
  spec.mutable_model()->set_path(Model(R"({"max_position_embeddings": 100})"));
  spec.mutable_data()->set_max_prompt_length(60);
  spec.mutable_data()->set_max_response_length(40);
  EXPECT_TRUE(CheckModelConfigs(spec).empty());
  spec.mutable_data()->set_max_response_length(41);
  // A problem of the job's own model is reported once, however many roles share it.
  *spec.mutable_reference()->mutable_model() = spec.model();
  ASSERT_EQ(CheckModelConfigs(spec).size(), 1u);
  EXPECT_EQ(CheckModelConfigs(spec)[0].field(), "spec.data.max_response_length");
  EXPECT_THAT(CheckModelConfigs(spec)[0].description(),
              HasSubstr("= 101 exceeds the 100 positions of the model"));
}

TEST_F(ModelConfigTest, PromptAndResponseMustFitThePositionsOfARolesOwnModel) {
  v1::JobSpec spec;
  spec.mutable_model()->mutable_init();
  spec.mutable_cost_model()->mutable_model()->set_path(
      Model(R"({"max_position_embeddings": 100, "architectures": ["XForTokenClassification"]})"));
  spec.mutable_data()->set_max_prompt_length(100);
  spec.mutable_data()->set_max_response_length(1);
  ASSERT_EQ(CheckModelConfigs(spec).size(), 1u);
  EXPECT_EQ(CheckModelConfigs(spec)[0].field(), "spec.cost_model.model.path");
}

TEST_F(ModelConfigTest, NamesModelFeaturesThatNotEveryWorkerHas) {
  for (const char* type : {"llama", "qwen2", "of-somebody-else", ""}) {
    EXPECT_THAT(ModelFeaturesOf(Model(absl::StrCat(R"({"model_type": ")", type, "\"}"))),
                IsEmpty());
  }
  EXPECT_THAT(ModelFeaturesOf(Model("{}")), IsEmpty());
  EXPECT_THAT(ModelFeaturesOf(Model(R"({"model_type": "qwen3"})")), ElementsAre("model_qwen3"));
  const std::string tokenizer = folder_ + "/tokenizer_config.json";
  std::ofstream(tokenizer) << R"({"tokenizer_class": "LlamaTokenizerFast"})";
  EXPECT_THAT(ModelFeaturesOf(Model(R"({"model_type": "mistral"})")),
              ElementsAre("byte_fallback_tokenizers", "model_mistral"));
  EXPECT_THAT(ModelFeaturesOf(Model(R"({"model_type": "llama"})")),
              ElementsAre("byte_fallback_tokenizers"));
  for (const char* other : {R"({"tokenizer_class": "Qwen2Tokenizer"})", "{}", "no JSON"}) {
    std::ofstream(tokenizer) << other;
    EXPECT_THAT(ModelFeaturesOf(Model(R"({"model_type": "qwen2"})")), IsEmpty()) << other;
  }
}

}  // namespace
}  // namespace baton::controller
