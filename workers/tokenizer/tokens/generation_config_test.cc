#include "workers/tokenizer/tokens/generation_config.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sdk/common/base/test_folder.h"

namespace baton::tokenizer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(GenerationConfigTest, ReadsWhatModelsShip) {
  auto config = GenerationConfig::FromJson(
      R"({"bos_token_id": 128000, "do_sample": true, "eos_token_id": [128001, 128009],
          "temperature": 0.6, "top_p": 0.9, "top_k": 20, "transformers_version": "4.42.3"})");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->eos_token_ids, ElementsAre(128001, 128009));
  EXPECT_EQ(config->bos_token_id, 128000);
  EXPECT_EQ(config->pad_token_id, std::nullopt);
  EXPECT_EQ(config->do_sample, true);
  EXPECT_DOUBLE_EQ(*config->temperature, 0.6);
  EXPECT_DOUBLE_EQ(*config->top_p, 0.9);
  EXPECT_EQ(config->top_k, 20);
  auto none = GenerationConfig::FromJson(R"({"eos_token_id": null, "pad_token_id": -1})");
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_THAT(none->eos_token_ids, IsEmpty());
  EXPECT_EQ(none->pad_token_id, std::nullopt);
}

TEST(GenerationConfigTest, SavesWhatItLoads) {
  const TestFolder folder;
  EXPECT_EQ(GenerationConfig::Load(folder.path()).status().code(), absl::StatusCode::kNotFound);
  GenerationConfig config;
  config.eos_token_ids = {7};
  config.temperature = 0.25;
  config.top_k = 0;
  ASSERT_TRUE(config.Save(folder.path()).ok());
  auto loaded = GenerationConfig::Load(folder.path());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->eos_token_ids, ElementsAre(7));
  EXPECT_EQ(loaded->temperature, 0.25);
  EXPECT_EQ(loaded->top_k, 0);
  EXPECT_EQ(loaded->top_p, std::nullopt);
  EXPECT_THAT(config.ToJson(), HasSubstr("\"eos_token_id\": 7"));
}

TEST(GenerationConfigTest, WrongFieldsAreNamed) {
  const auto message = [](const char* json) {
    const auto config = GenerationConfig::FromJson(json);
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << json;
    return std::string(config.status().message());
  };
  EXPECT_THAT(message("{"), HasSubstr("generation_config.json: not valid JSON"));
  EXPECT_THAT(message("[]"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(message(R"({"eos_token_id": ["x"]})"), HasSubstr("eos_token_id"));
  EXPECT_THAT(message(R"({"eos_token_id": 1.5})"), HasSubstr("eos_token_id"));
  EXPECT_THAT(message(R"({"temperature": "hot"})"), HasSubstr("temperature"));
  EXPECT_THAT(message(R"({"temperature": -1})"), HasSubstr("temperature"));
  EXPECT_THAT(message(R"({"top_p": 1.5})"), HasSubstr("top_p"));
  EXPECT_THAT(message(R"({"top_k": -5})"), HasSubstr("top_k"));
  EXPECT_THAT(message(R"({"do_sample": 1})"), HasSubstr("do_sample"));
}

}  // namespace
}  // namespace baton::tokenizer
