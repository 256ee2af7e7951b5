#include "controller/runtime/model_config.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

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
  EXPECT_EQ(config.heads, 8);
  EXPECT_EQ(config.key_heads, 2);
  EXPECT_EQ(config.architecture, "LlamaForCausalLM");
  EXPECT_EQ(ReadModelConfig(Model(R"({"num_attention_heads": 8})")).key_heads, 8);
}

TEST_F(ModelConfigTest, WhatIsBrokenIsLeftToTheWorker) {
  for (const char* json :
       {"", "{", "[]", R"({"num_attention_heads": "8", "architectures": [3]})"}) {
    const ModelConfig config = ReadModelConfig(Model(json));
    EXPECT_EQ(config.heads, 0) << json;
    EXPECT_EQ(config.architecture, "") << json;
  }
  EXPECT_EQ(ReadModelConfig(folder_ + "/nowhere").heads, 0);
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

TEST_F(ModelConfigTest, SoDoesThatOfARoleWithItsOwnModel) {
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

}  // namespace
}  // namespace baton::controller
