#include "workers/engine/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"

namespace baton::engine {
namespace {

using ::testing::HasSubstr;

// As Meta publishes it for Llama 3.2 1B (fields that do not matter here left out).
constexpr char kLlama32[] = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 128000, "eos_token_id": [128001, 128008, 128009], "head_dim": 64,
  "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
  "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false,
  "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 16,
  "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                   "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "transformers_version": "4.45.0.dev0", "use_cache": true, "vocab_size": 128256})";

// As Alibaba publishes it for Qwen2.5 0.5B.
constexpr char kQwen25[] = R"({
  "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643,
  "eos_token_id": 151643, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
  "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 24,
  "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24,
  "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
  "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "use_cache": true, "use_mrope": false, "use_sliding_window": false, "vocab_size": 151936})";

TEST(ModelConfig, ReadsPublishedModels) {
  const auto llama = ModelConfig::FromJson(kLlama32);
  ASSERT_TRUE(llama.ok()) << llama.status();
  EXPECT_EQ(llama->family, ModelConfig::Family::kLlama);
  EXPECT_EQ(llama->rope_scaling.type, RopeScaling::Type::kLlama3);
  EXPECT_EQ(llama->rope_scaling.factor, 32.0);
  EXPECT_EQ(llama->eos_token_ids, (std::vector<int64_t>{128001, 128008, 128009}));
  EXPECT_EQ(llama->torch_dtype, "bfloat16");
  EXPECT_FALSE(llama->attention_bias);
  EXPECT_EQ(llama->NumParameters(), 1'235'814'400);  // As its model card counts.

  const auto qwen = ModelConfig::FromJson(kQwen25);
  ASSERT_TRUE(qwen.ok()) << qwen.status();
  EXPECT_EQ(qwen->family, ModelConfig::Family::kQwen2);
  EXPECT_EQ(qwen->head_dim, 64);
  EXPECT_TRUE(qwen->attention_bias);
  EXPECT_FALSE(qwen->attention_output_bias);
  EXPECT_EQ(qwen->NumParameters(), 494'032'768);
}

TEST(ModelConfig, RoundTrips) {
  for (const char* text : {kLlama32, kQwen25}) {
    const auto config = ModelConfig::FromJson(text);
    ASSERT_TRUE(config.ok());
    const auto back = ModelConfig::FromJson(config->ToJson());
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->ToJson(), config->ToJson());
    EXPECT_EQ(back->rope_scaling.original_max_position_embeddings,
              config->rope_scaling.original_max_position_embeddings);
    EXPECT_EQ(back->eos_token_ids, config->eos_token_ids);
    EXPECT_EQ(back->bos_token_id, config->bos_token_id);
    EXPECT_EQ(back->rms_norm_eps, config->rms_norm_eps);
  }
}

TEST(ModelConfig, ReadsRopeParametersOfTransformers5) {
  const auto config = ModelConfig::FromJson(absl::StrReplaceAll(
      kQwen25, {{"\"rope_theta\": 1000000.0",
                 "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 5000.0}"}}));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->rope_theta, 5000.0);
  EXPECT_EQ(config->rope_scaling.type, RopeScaling::Type::kNone);
}

TEST(ModelConfig, WhatIsNotComputedExactlyIsRefused) {
  struct Case {
    const char *from, *to, *message;
  };
  const Case cases[] = {
      {"\"model_type\": \"qwen2\"", "\"model_type\": \"mistral\"", "model_type: \"mistral\""},
      {"\"silu\"", "\"gelu\"", "hidden_act: \"gelu\""},
      {"\"use_sliding_window\": false", "\"use_sliding_window\": true", "use_sliding_window"},
      {"\"use_mrope\": false", "\"layer_types\": [\"sliding_attention\"]", "use_sliding_window"},
      {"\"use_mrope\": false", "\"quantization_config\": {}", "quantization_config"},
      {"\"use_mrope\": false", "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0}",
       "rope_scaling.rope_type: \"yarn\""}};
  for (const Case& c : cases) {
    const auto config = ModelConfig::FromJson(absl::StrReplaceAll(kQwen25, {{c.from, c.to}}));
    EXPECT_EQ(config.status().code(), absl::StatusCode::kUnimplemented) << c.to;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(c.message));
  }
}

TEST(ModelConfig, MalformedValuesNameTheirKey) {
  struct Case {
    const char *from, *to, *message;
  };
  const Case cases[] = {
      {"\"hidden_size\": 896,", "", "hidden_size: is missing"},
      {"\"hidden_size\": 896", "\"hidden_size\": \"x\"", "hidden_size: must be an integer"},
      {"\"hidden_size\": 896", "\"hidden_size\": -1", "hidden_size: -1 is not in [1, "},
      {"\"hidden_size\": 896", "\"hidden_size\": 18446744073709551615", "is too large"},
      {"\"num_attention_heads\": 14", "\"num_attention_heads\": 0", "num_attention_heads: 0"},
      {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "does not divide"},
      {"\"use_mrope\": false", "\"head_dim\": 63", "head_dim: 63 is not even"},
      {"\"rms_norm_eps\": 1e-06", "\"rms_norm_eps\": []", "rms_norm_eps: must be a number"},
      {"\"bos_token_id\": 151643", "\"bos_token_id\": 151936", "bos_token_id: 151936 is not in"},
      {"\"eos_token_id\": 151643", "\"eos_token_id\": [1.5]", "eos_token_id: must be an integer"},
      {"\"bfloat16\"", "\"int8\"", "torch_dtype: \"int8\""},
      {"\"use_mrope\": false", "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 0}",
       "factor must be positive"},
      {"\"use_mrope\": false", "\"rope_scaling\": {\"type\": \"linear\"}",
       "rope_scaling.factor: is missing"},
      {"\"use_mrope\": false", "\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0}",
       "rope_scaling.low_freq_factor: is missing"},
      {"\"eos_token_id\": 151643", "\"eos_token_id\": 18446744073709551615", "is too large"},
      {"\"use_mrope\": false", "\"rope_scaling\": 3", "rope_scaling: must be an object"}};
  for (const Case& c : cases) {
    const auto config = ModelConfig::FromJson(absl::StrReplaceAll(kQwen25, {{c.from, c.to}}));
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument) << c.to;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(c.message));
  }
  for (const char* text : {"", "[]", "null", "{\"a\":", "\xff"}) {
    EXPECT_EQ(ModelConfig::FromJson(text).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace baton::engine
