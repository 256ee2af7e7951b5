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

// As Hugging Face publishes it for SmolLM3 3B.
constexpr char kSmolLm3[] = R"({
  "architectures": ["SmolLM3ForCausalLM"], "attention_bias": false, "eos_token_id": 128012,
  "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
  "intermediate_size": 11008, "max_position_embeddings": 65536, "max_window_layers": 28,
  "mlp_bias": false, "model_type": "smollm3", "no_rope_layer_interval": 4,
  "num_attention_heads": 16, "num_hidden_layers": 36, "num_key_value_heads": 4,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 5000000.0, "sliding_window": null,
  "torch_dtype": "bfloat16", "use_sliding_window": false, "vocab_size": 128256})";

// As Microsoft publishes it for Phi-3 mini 4k.
constexpr char kPhi3[] = R"({
  "architectures": ["Phi3ForCausalLM"], "bos_token_id": 1, "eos_token_id": 32000,
  "hidden_act": "silu", "hidden_size": 3072, "intermediate_size": 8192,
  "max_position_embeddings": 4096, "model_type": "phi3", "num_attention_heads": 32,
  "num_hidden_layers": 32, "num_key_value_heads": 32, "original_max_position_embeddings": 4096,
  "pad_token_id": 32000, "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0,
  "sliding_window": 2047, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "vocab_size": 32064})";

// As the Allen Institute publishes it for OLMo 2 1B.
constexpr char kOlmo2[] = R"({
  "architectures": ["Olmo2ForCausalLM"], "attention_bias": false, "eos_token_id": 100257,
  "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 8192,
  "max_position_embeddings": 4096, "model_type": "olmo2", "num_attention_heads": 16,
  "num_hidden_layers": 16, "num_key_value_heads": 16, "pad_token_id": 100277,
  "rms_norm_eps": 1e-06, "rope_theta": 500000, "tie_word_embeddings": false,
  "torch_dtype": "float32", "vocab_size": 100352})";

// As IBM publishes it for Granite 3.1 2B.
constexpr char kGranite[] = R"({
  "architectures": ["GraniteForCausalLM"], "attention_bias": false,
  "attention_multiplier": 0.015625, "bos_token_id": 0, "embedding_multiplier": 12.0,
  "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 8192,
  "logits_scaling": 8.0, "max_position_embeddings": 131072, "mlp_bias": false,
  "model_type": "granite", "num_attention_heads": 32, "num_hidden_layers": 40,
  "num_key_value_heads": 8, "residual_multiplier": 0.22, "rms_norm_eps": 1e-05,
  "rope_theta": 5000000.0, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "vocab_size": 49155})";

// As Google publishes it for Gemma 3 1B.
constexpr char kGemma3[] = R"({
  "architectures": ["Gemma3ForCausalLM"], "attention_bias": false, "attn_logit_softcapping": null,
  "bos_token_id": 2, "eos_token_id": [1, 106], "final_logit_softcapping": null, "head_dim": 256,
  "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "intermediate_size": 6912,
  "max_position_embeddings": 32768, "model_type": "gemma3_text", "num_attention_heads": 4,
  "num_hidden_layers": 26, "num_key_value_heads": 1, "pad_token_id": 0,
  "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000,
  "rope_scaling": null, "rope_theta": 1000000, "sliding_window": 512,
  "sliding_window_pattern": 6, "torch_dtype": "bfloat16", "vocab_size": 262144})";

// The numbers of parameters are those that transformers 5.24 counts in models of these configs.
TEST(ModelConfig, ReadsPublishedModelsOfFurtherFamilies) {
  const auto smol = ModelConfig::FromJson(kSmolLm3);
  ASSERT_TRUE(smol.ok()) << smol.status();
  EXPECT_TRUE(smol->tie_word_embeddings);  // the family's default; the file does not say it
  EXPECT_TRUE(smol->layers.rotates(2));
  EXPECT_FALSE(smol->layers.rotates(3));
  EXPECT_EQ(smol->positions(), 65536);
  EXPECT_EQ(smol->NumParameters(), 3'075'098'624);

  const auto phi = ModelConfig::FromJson(kPhi3);
  ASSERT_TRUE(phi.ok()) << phi.status();
  EXPECT_EQ(phi->positions(), 4096);
  EXPECT_EQ(phi->NumParameters(), 3'821'079'552);

  const auto olmo = ModelConfig::FromJson(kOlmo2);
  ASSERT_TRUE(olmo.ok()) << olmo.status();
  EXPECT_EQ(olmo->head_norms(), ModelConfig::HeadNorms::kAllHeads);
  EXPECT_FALSE(olmo->has_input_norms());
  EXPECT_EQ(olmo->NumParameters(), 1'484'916'736);

  const auto granite = ModelConfig::FromJson(kGranite);
  ASSERT_TRUE(granite.ok()) << granite.status();
  EXPECT_EQ(granite->embedding_scale(), 12.0);
  EXPECT_EQ(granite->query_scale(), 0.125);  // 1/64 for 1/8
  EXPECT_EQ(granite->NumParameters(), 2'533'531'648);

  const auto gemma = ModelConfig::FromJson(kGemma3);
  ASSERT_TRUE(gemma.ok()) << gemma.status();
  EXPECT_TRUE(gemma->tie_word_embeddings);
  EXPECT_TRUE(gemma->layers.slides(4));
  EXPECT_FALSE(gemma->layers.slides(5));
  EXPECT_EQ(gemma->query_scale(), 1.0);
  EXPECT_EQ(gemma->positions(), 32768);
  EXPECT_EQ(gemma->rope.theta, 1e6);
  EXPECT_EQ(gemma->NumParameters(), 999'885'952);
}

TEST(ModelConfig, ReadsPublishedModels) {
  const auto llama = ModelConfig::FromJson(kLlama32);
  ASSERT_TRUE(llama.ok()) << llama.status();
  EXPECT_EQ(llama->family, ModelConfig::Family::kLlama);
  EXPECT_EQ(llama->rope.scaling.type, RopeScaling::Type::kLlama3);
  EXPECT_EQ(llama->rope.scaling.factor, 32.0);
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
  EXPECT_EQ(qwen3->head_norms(), ModelConfig::HeadNorms::kEachHead);
  EXPECT_EQ(qwen3->NumParameters(), 596'049'920);

  const auto mistral = ModelConfig::FromJson(kMistral);
  ASSERT_TRUE(mistral.ok()) << mistral.status();
  EXPECT_EQ(mistral->family, ModelConfig::Family::kMistral);
  EXPECT_EQ(mistral->head_dim, 128);
  EXPECT_EQ(mistral->NumParameters(), 7'241'732'096);
}

TEST(ModelConfig, ASlidingWindowIsReadAndWrittenAgain) {
  const auto read = [](const char* to) {
    return ModelConfig::FromJson(absl::StrReplaceAll(kMistral, {{"\"sliding_window\": 4096", to}}));
  };
  EXPECT_EQ(read("\"sliding_window\": 4096")->layers.sliding_window, 4096);
  EXPECT_EQ(read("\"sliding_window\": 4096")->positions(), 32768);
  EXPECT_EQ(read("\"sliding_window\": null")->layers.sliding_window, std::nullopt);
  EXPECT_EQ(read("\"no_key\": 1")->layers.sliding_window, 4096);  // what transformers takes then
  EXPECT_THAT(std::string(read("\"sliding_window\": 0").status().message()),
              HasSubstr("sliding_window: 0 is not in"));
  // Saved again, the window is what it was; null stays null.
  for (const char* window : {"\"sliding_window\": 4096", "\"sliding_window\": null"}) {
    EXPECT_EQ(ModelConfig::FromJson(read(window)->ToJson())->layers.sliding_window,
              read(window)->layers.sliding_window);
  }
  EXPECT_EQ(ModelConfig::FromJson(kQwen25)->layers.sliding_window, std::nullopt);
}

TEST(ModelConfig, RoundTrips) {
  for (const char* text :
       {kLlama32, kQwen25, kQwen3, kMistral, kSmolLm3, kPhi3, kOlmo2, kGranite, kGemma3}) {
    const auto config = ModelConfig::FromJson(text);
    ASSERT_TRUE(config.ok());
    const auto back = ModelConfig::FromJson(config->ToJson());
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->ToJson(), config->ToJson());
    EXPECT_EQ(back->rope.scaling.original_max_position_embeddings,
              config->rope.scaling.original_max_position_embeddings);
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
  EXPECT_EQ(config->rope.theta, 5000.0);
  EXPECT_EQ(config->rope.scaling.type, RopeScaling::Type::kNone);
}

TEST(ModelConfig, RefusesUnsupportedModelFeatures) {
  struct Case {
    const char *from, *to, *message;
  };
  const Case cases[] = {
      {"\"model_type\": \"qwen2\"", "\"model_type\": \"gpt2\"",
       "model_type: \"gpt2\" is not supported (it needs LayerNorm and learned positions); "
       "supported are llama, mistral, qwen2, qwen3, smollm3"},
      {"\"model_type\": \"qwen2\"", "\"model_type\": \"new\"",
       "model_type: \"new\" is not supported; supported are llama"},
      {"\"silu\"", "\"gelu\"", "hidden_act: \"gelu\""},
      {"\"use_mrope\": false", "\"layer_types\": [\"chunked_attention\"]", "chunked_attention"},
      {"\"use_mrope\": false", "\"partial_rotary_factor\": 0.5", "partial_rotary_factor: 0.5"},
      {"\"use_mrope\": false", "\"rope_parameters\": {\"full_attention\": {}}",
       "rope_parameters: rotary positions by type of layer"},
      {"\"use_mrope\": false", "\"quantization_config\": {}", "quantization_config"},
      {"\"use_mrope\": false", "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0}",
       "rope_scaling.rope_type: \"yarn\""}};
  for (const Case& c : cases) {
    const auto config = ModelConfig::FromJson(absl::StrReplaceAll(kQwen25, {{c.from, c.to}}));
    EXPECT_EQ(config.status().code(), absl::StatusCode::kUnimplemented) << c.to;
    EXPECT_THAT(std::string(config.status().message()), HasSubstr(c.message));
  }
}

std::string Qwen2With(const std::string& keys) {
  return absl::StrReplaceAll(kQwen25, {{"\"use_sliding_window\": false", keys},
                                       {"\"num_hidden_layers\": 24", "\"num_hidden_layers\": 2"}});
}

TEST(ModelConfig, AWindowCountsOnlyIfALayerHasIt) {
  const std::string used = "\"use_sliding_window\": true";
  const auto full = ModelConfig::FromJson(Qwen2With(used));  // max_window_layers is 24
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_FALSE(full->layers.sliding_window.has_value());
  const auto listed = ModelConfig::FromJson(
      Qwen2With(used + R"(, "layer_types": ["full_attention", "full_attention"])"));
  EXPECT_FALSE(listed->layers.sliding_window.has_value());
  // layer_types goes before max_window_layers.
  const auto second = ModelConfig::FromJson(
      absl::StrReplaceAll(Qwen2With(used + R"(, "layer_types": ["full_attention",
                                              "sliding_attention"])"),
                          {{"\"sliding_window\": 32768", "\"sliding_window\": 100"}}));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(second->layers.slides(0));
  EXPECT_TRUE(second->layers.slides(1));
  EXPECT_EQ(second->layers.sliding_window, 100);
  const auto back = ModelConfig::FromJson(second->ToJson());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->layers.sliding, second->layers.sliding);
  EXPECT_EQ(back->layers.sliding_window, 100);
  const auto error = [](const std::string& keys) {
    return std::string(ModelConfig::FromJson(Qwen2With(keys)).status().message());
  };
  EXPECT_THAT(error(R"("layer_types": ["sliding_attention", "full_attention"])"),
              HasSubstr("use_sliding_window is false"));
  EXPECT_THAT(error(R"("layer_types": ["full_attention"])"),
              HasSubstr("layer_types: has 1 entries for 2 layers"));
}

// What transformers 5.24 makes of the same files (AutoConfig, then standardize_rope_params).
TEST(ModelConfig, ContradictingKeysCountAsInTransformers5) {
  const auto read = [](const std::string& keys) {
    const auto config = ModelConfig::FromJson(absl::StrReplaceAll(
        kLlama32,
        {{"\"rope_theta\": 500000.0", keys}, {"\"rope_scaling\"", "\"former_rope_scaling\""}}));
    EXPECT_TRUE(config.ok()) << config.status();
    return *config;
  };
  const std::string parameters =
      R"("rope_theta": 7.0, "rope_parameters": {"rope_type": "default", "rope_theta": 5.0})";
  EXPECT_EQ(read(parameters).rope.theta, 5.0);
  const ModelConfig both =
      read(parameters + R"(, "rope_scaling": {"rope_type": "linear", "factor": 2.0})");
  EXPECT_EQ(both.rope.scaling.type, RopeScaling::Type::kLinear);
  EXPECT_EQ(both.rope.theta, 7.0);
  EXPECT_EQ(read(parameters + R"(, "rope_scaling": {})").rope.theta, 5.0);
  EXPECT_EQ(read(R"("rope_theta": 7.0, "rope_parameters": {"rope_type": "default"})").rope.theta,
            7.0);
  EXPECT_EQ(read(R"("rope_scaling": {"rope_type": "linear", "type": "llama3", "factor": 2.0})")
                .rope.scaling.type,
            RopeScaling::Type::kLinear);
  const std::string llama3 =
      R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                          "high_freq_factor": 4.0)";
  const auto original = [&](const std::string& keys) {
    return read(llama3 + keys).rope.scaling.original_max_position_embeddings;
  };
  EXPECT_EQ(original("}"), 131072);  // max_position_embeddings
  EXPECT_EQ(original(R"(, "original_max_position_embeddings": 32})"), 32);
  EXPECT_EQ(original(R"(, "original_max_position_embeddings": 32},
                      "original_max_position_embeddings": 64)"),
            32);  // only Phi-3 has the key outside
  EXPECT_EQ(original(R"(}, "original_max_position_embeddings": 64)"), 131072);
  const auto dtype = [](const char* keys) {
    return ModelConfig::FromJson(
               absl::StrReplaceAll(kLlama32, {{"\"torch_dtype\": \"bfloat16\"", keys}}))
        ->torch_dtype;
  };
  EXPECT_EQ(dtype(R"("dtype": "bfloat16", "torch_dtype": "float16")"), "bfloat16");
  EXPECT_EQ(dtype(R"("dtype": null, "torch_dtype": "float16")"), "float16");
}

TEST(ModelConfig, GemmasRopeScalingBelongsToFullAttention) {
  const auto read = [](const std::string& scaling) {
    const auto config = ModelConfig::FromJson(absl::StrReplaceAll(
        kGemma3, {{"\"rope_scaling\": null", scaling},
                  {"\"rope_local_base_freq\": 10000", "\"rope_local_base_freq\": 4"},
                  {"\"rope_theta\": 1000000", "\"rope_theta\": 3"}}));
    EXPECT_TRUE(config.ok()) << config.status();
    return *config;
  };
  const std::string linear = R"("rope_scaling": {"rope_type": "linear", "factor": 8.0})";
  const ModelConfig old_form = read(linear);
  EXPECT_EQ(old_form.rope.scaling.type, RopeScaling::Type::kLinear);
  EXPECT_EQ(old_form.rope.theta, 3);
  EXPECT_EQ(old_form.local_rope_theta, 4);
  EXPECT_EQ(ModelConfig::FromJson(old_form.ToJson())->rope.scaling.type,
            RopeScaling::Type::kLinear);
  EXPECT_EQ(read(R"("rope_scaling": {"type": "linear", "factor": 8.0})").rope.scaling.type,
            RopeScaling::Type::kNone);
  const ModelConfig both = read(linear + R"(, "rope_parameters": {
      "full_attention": {"rope_type": "default", "rope_theta": 5.0},
      "sliding_attention": {"rope_theta": 6.0}})");
  EXPECT_EQ(both.rope.scaling.type, RopeScaling::Type::kLinear);
  EXPECT_EQ(both.rope.theta, 5);
  EXPECT_EQ(both.local_rope_theta, 6);
  EXPECT_EQ(ModelConfig::FromJson(
                absl::StrReplaceAll(kGemma3, {{"\"rope_scaling\": null",
                                               R"("rope_parameters": {"rope_type": "linear"})"}}))
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

// transformers computes a Gemma 3 whose heads would rotate in part either whole or not at all.
TEST(ModelConfig, GemmasHeadsRotateAsAWhole) {
  const auto problem = [](const std::string& keys) {
    const absl::Status status =
        ModelConfig::FromJson(absl::StrReplaceAll(kGemma3, {{"\"rope_scaling\": null", keys}}))
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << keys;
    return std::string(status.message());
  };
  EXPECT_THAT(problem(R"("partial_rotary_factor": 0.5)"), HasSubstr("partial_rotary_factor: 0.5"));
  EXPECT_THAT(problem(R"("rope_parameters": {"full_attention": {"partial_rotary_factor": 0.5}})"),
              HasSubstr("partial_rotary_factor: 0.5"));
  EXPECT_THAT(
      problem(R"("rope_parameters": {"sliding_attention": {"partial_rotary_factor": 0.5}})"),
      HasSubstr("rope_parameters.sliding_attention: "));
}

TEST(ModelConfig, WarnsOfAnArchitectureOfAnotherFamilyAndOfDropout) {
  const auto with = [](const char* from, const char* to) {
    return ModelConfig::Warnings(absl::StrReplaceAll(kLlama32, {{from, to}}));
  };
  EXPECT_THAT(with("LlamaForCausalLM", "LlamaForSequenceClassification"), ::testing::IsEmpty());
  EXPECT_THAT(with("LlamaForCausalLM", "MistralForCausalLM"),
              ::testing::ElementsAre(HasSubstr(
                  "says architectures: MistralForCausalLM and model_type: llama; the latter")));
  EXPECT_THAT(
      with("\"attention_dropout\": 0.0", "\"attention_dropout\": 0.1"),
      ::testing::ElementsAre(HasSubstr("says attention_dropout: 0.1; Baton trains without")));
  for (const char* text : {kQwen25, kQwen3, kMistral, kSmolLm3, kPhi3, kOlmo2, kGranite, kGemma3}) {
    EXPECT_THAT(ModelConfig::Warnings(text), ::testing::IsEmpty()) << text;
  }
}

TEST(ModelConfig, ContradictionsAreTold) {
  EXPECT_THAT(ModelConfig::Warnings(kLlama32), ::testing::IsEmpty());
  EXPECT_THAT(ModelConfig::Warnings("{}"), ::testing::IsEmpty());
  const std::string text = absl::StrReplaceAll(
      kLlama32, {{"\"torch_dtype\": \"bfloat16\"", R"("dtype": "bfloat16", "torch_dtype": "float16",
         "rope_parameters": {"rope_type": "default"})"}});
  EXPECT_THAT(ModelConfig::Warnings(text),
              ::testing::ElementsAre(HasSubstr("says dtype: \"bfloat16\" and torch_dtype"),
                                     HasSubstr("says rope_scaling: ")));
}

TEST(ModelConfig, LongRopeBoundsThePositions) {
  std::string factors = "[1.0";
  for (int i = 1; i < 48; ++i) factors += ", 1.5";
  factors += "]";
  const auto read = [&](const std::string& short_factors, const std::string& more) {
    return ModelConfig::FromJson(absl::StrReplaceAll(
        kPhi3, {{"\"rope_scaling\": null",
                 "\"rope_scaling\": {\"type\": \"longrope\", "
                 "\"short_factor\": " +
                     short_factors + ", \"long_factor\": " + factors + more + "}"},
                {"\"sliding_window\": 2047", "\"sliding_window\": null"},
                {"\"max_position_embeddings\": 4096, \"model",
                 "\"max_position_embeddings\": 131072, "
                 "\"model"}}));
  };
  const auto config = read(factors, "");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->positions(), 4096);
  // sqrt(1 + ln(32) / ln(4096)) = sqrt(1 + 5 / 12)
  EXPECT_DOUBLE_EQ(config->rope.scaling.attention_factor, 1.1902380714238083);
  const auto back = ModelConfig::FromJson(config->ToJson());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->rope.scaling.short_factor, config->rope.scaling.short_factor);
  EXPECT_EQ(back->positions(), 4096);
  EXPECT_EQ(read(factors, ", \"attention_factor\": 2.5")->rope.scaling.attention_factor, 2.5);
  EXPECT_THAT(std::string(read("[1.0]", "").status().message()),
              HasSubstr("short_factor and long_factor must have 48 positive numbers"));
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
