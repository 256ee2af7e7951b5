#include "sdk/common/schema/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"

namespace baton {
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

// As Alibaba publishes it for Qwen3 0.6B.
constexpr char kQwen3[] = R"({
  "architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu",
  "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
  "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
  "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
  "use_cache": true, "use_sliding_window": false, "vocab_size": 151936})";

// As Mistral AI publishes it for Mistral 7B v0.1.
constexpr char kMistral[] = R"({
  "architectures": ["MistralForCausalLM"], "bos_token_id": 1, "eos_token_id": 2,
  "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mistral",
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096,
  "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_cache": true,
  "vocab_size": 32000})";

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

  const auto qwen3 = ModelConfig::FromJson(kQwen3);
  ASSERT_TRUE(qwen3.ok()) << qwen3.status();
  EXPECT_EQ(qwen3->family, ModelConfig::Family::kQwen3);
  EXPECT_EQ(qwen3->head_dim, 128);  // and not 1024 / 16
  EXPECT_FALSE(qwen3->attention_bias);
  EXPECT_TRUE(qwen3->has_head_norms());
  EXPECT_EQ(qwen3->NumParameters(), 596'049'920);

  const auto mistral = ModelConfig::FromJson(kMistral);
  ASSERT_TRUE(mistral.ok()) << mistral.status();
  EXPECT_EQ(mistral->family, ModelConfig::Family::kMistral);
  EXPECT_EQ(mistral->head_dim, 128);
  EXPECT_EQ(mistral->NumParameters(), 7'241'732'096);
}

TEST(ModelConfig, ASlidingWindowBoundsThePositions) {
  const auto read = [](const char* to) {
    return ModelConfig::FromJson(absl::StrReplaceAll(kMistral, {{"\"sliding_window\": 4096", to}}));
  };
  EXPECT_EQ(read("\"sliding_window\": 4096")->positions(), 4096);
  EXPECT_EQ(read("\"sliding_window\": null")->positions(), 32768);
  EXPECT_EQ(read("\"sliding_window\": 100000")->positions(), 32768);
  EXPECT_EQ(read("\"no_key\": 1")->positions(), 4096);  // what transformers takes then
  EXPECT_THAT(std::string(read("\"sliding_window\": 0").status().message()),
              HasSubstr("sliding_window: 0 is not in"));
  // Saved again, the window is what it was; null stays null.
  for (const char* window : {"\"sliding_window\": 4096", "\"sliding_window\": null"}) {
    EXPECT_EQ(ModelConfig::FromJson(read(window)->ToJson())->sliding_window,
              read(window)->sliding_window);
  }
  EXPECT_EQ(ModelConfig::FromJson(kQwen25)->positions(), 32768);
}

TEST(ModelConfig, RoundTrips) {
  for (const char* text : {kLlama32, kQwen25, kQwen3, kMistral}) {
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

TEST(ModelConfig, RefusesUnsupportedModelFeatures) {
  struct Case {
    const char *from, *to, *message;
  };
  const Case cases[] = {
      {"\"model_type\": \"qwen2\"", "\"model_type\": \"gpt2\"",
       "model_type: \"gpt2\" is not supported; supported are llama, mistral, qwen2, qwen3"},
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

TEST(ModelConfig, SketchReadsTheFieldsItFinds) {
  const auto qwen = ModelConfig::Sketch(kQwen25);
  ASSERT_TRUE(qwen.ok()) << qwen.status();
  const auto whole = ModelConfig::FromJson(kQwen25);
  EXPECT_EQ(qwen->NumParameters(), whole->NumParameters());
  EXPECT_EQ(qwen->positions(), whole->positions());
  EXPECT_TRUE(qwen->attention_bias);
  const auto other = ModelConfig::Sketch(
      R"({"model_type": "olmo", "hidden_size": 64, "num_attention_heads": 8, "head_dim": "8",
          "architectures": ["OlmoForCausalLM"]})");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->hidden_size, 64);
  EXPECT_EQ(other->num_key_value_heads, 8);
  EXPECT_EQ(other->head_dim, 8);
  EXPECT_EQ(other->num_hidden_layers, 0);
  EXPECT_EQ(other->positions(), 0);
  EXPECT_EQ(other->architecture, "OlmoForCausalLM");
  EXPECT_EQ(ModelConfig::Sketch("[]").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace baton
