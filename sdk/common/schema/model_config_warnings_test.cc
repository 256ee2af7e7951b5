// Keys of a config.json that contradict each other: what counts, and what is said of it.
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/schema/model_config.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Four layers of the family, with these keys. What they make is what transformers 5.24 made of the
// same keys (AutoConfig.from_pretrained).
std::string Small(const std::string& model_type, const std::string& keys) {
  return absl::StrCat(
      R"({"model_type": ")", model_type,
      R"(", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 4,
          "num_attention_heads": 4, "num_key_value_heads": 2, )",
      keys, "}");
}

TEST(ModelConfigWarnings, LayerTypesGoBeforeWhatTheyAreMadeOf) {
  const auto types = [](int sliding) {
    std::string list;
    for (int i = 0; i < 4; ++i) {
      absl::StrAppend(&list, i > 0 ? ", " : "",
                      i < sliding ? "\"sliding_attention\"" : "\"full_attention\"");
    }
    return absl::StrCat("\"layer_types\": [", list, "]");
  };
  const std::string window = R"("use_sliding_window": true, "sliding_window": 16, )";
  struct Case {
    const char* family;
    std::string keys;
    int sliding;  // layers
    const char* warning;
  };
  const Case cases[] = {
      {"qwen2", window + "\"max_window_layers\": 2, " + types(1), 1,
       "layer_types: sliding_attention in 1 of 4 layers and max_window_layers: 2; the former"},
      {"qwen3", window + "\"max_window_layers\": 2, " + types(0), 0,
       "layer_types: sliding_attention in 0 of 4 layers and max_window_layers: 2; the former"},
      {"qwen2", window + "\"max_window_layers\": 0, " + types(4), 4, nullptr},
      {"qwen2", window + "\"max_window_layers\": 28, " + types(0), 0, nullptr},
      {"qwen2", window + types(2), 2, nullptr},
      {"qwen2", window + types(0), 0,
       "sliding_attention in 0 of 4 layers and use_sliding_window: true; the former"},
      {"qwen2", "\"max_window_layers\": 2, " + types(0), 0, nullptr},
      {"smollm3", window + types(0), 0, "and use_sliding_window: true; the former"},
      {"smollm3", window + types(3), 3, nullptr},
      {"gemma3_text", "\"sliding_window\": 16, \"sliding_window_pattern\": 2, " + types(1), 1,
       "sliding_attention in 1 of 4 layers and sliding_window_pattern: 2; the former"},
      {"gemma3_text", "\"sliding_window\": 16, " + types(1), 1, nullptr},
      // These families give all layers the window, or none.
      {"mistral", "\"sliding_window\": 16, " + types(1), 4,
       "sliding_window: 16 and layer_types: sliding_attention in 1 of 4 layers; the former"},
      {"mistral", types(0), 4, "sliding_window: 4096 (its default) and layer_types: "},
      {"mistral", "\"sliding_window\": null, " + types(1), 0,
       "sliding_window: null and layer_types: sliding_attention in 1 of 4 layers; the former"},
      {"mistral", "\"sliding_window\": null, " + types(0), 0, nullptr},
      {"phi3", types(4), 0, "sliding_window: null (its default) and layer_types: "}};
  for (const Case& c : cases) {
    const std::string text = Small(c.family, c.keys);
    const auto config = ModelConfig::FromJson(text);
    ASSERT_TRUE(config.ok()) << text << config.status();
    int sliding = 0;
    for (int64_t i = 0; i < 4; ++i) sliding += config->layers.slides(i) ? 1 : 0;
    EXPECT_EQ(sliding, c.sliding) << text;
    const auto warnings = ModelConfig::Warnings(text);
    if (c.warning == nullptr) {
      EXPECT_THAT(warnings, IsEmpty()) << text;
    } else {
      EXPECT_THAT(warnings, ElementsAre(HasSubstr(c.warning))) << text;
    }
  }
  // transformers refuses another number of them, in every family.
  for (const char* family : {"llama", "mistral", "qwen2", "smollm3", "gemma3_text"}) {
    EXPECT_THAT(
        std::string(ModelConfig::FromJson(Small(family, R"("layer_types": ["full_attention"])"))
                        .status()
                        .message()),
        HasSubstr("layer_types: has 1 entries for 4 layers"));
  }
}

TEST(ModelConfigWarnings, TheListOfLayersThatRotateGoesBeforeItsInterval) {
  const auto warnings = [](const std::string& keys) {
    const std::string text = Small("smollm3", keys);
    EXPECT_TRUE(ModelConfig::FromJson(text).ok()) << ModelConfig::FromJson(text).status();
    return ModelConfig::Warnings(text);
  };
  EXPECT_THAT(warnings(R"("no_rope_layers": [1, 1, 1, 0], "no_rope_layer_interval": 4)"),
              IsEmpty());
  EXPECT_THAT(warnings(R"("no_rope_layers": [1, 1, 0, 0])"), IsEmpty());
  for (const char* interval : {"2", "0"}) {  // with a list, transformers does not divide by it
    EXPECT_THAT(warnings(absl::StrCat(
                    R"("no_rope_layers": [1, 1, 1, 0], "no_rope_layer_interval": )", interval)),
                ElementsAre(HasSubstr(absl::StrCat(
                    "no_rope_layers: 0 in 1 of 4 layers and no_rope_layer_interval: ", interval,
                    "; the former counts"))));
  }
  EXPECT_THAT(
      warnings(R"("no_rope_layers": [1, 1, 1, 0, 1, 1])"),
      ElementsAre(HasSubstr("no_rope_layers: 6 entries and num_hidden_layers: 4; the first 4")));
  for (const char* keys : {R"("no_rope_layers": [1, 1])", R"("no_rope_layers": [])",
                           R"("no_rope_layer_interval": 0)"}) {
    EXPECT_FALSE(ModelConfig::FromJson(Small("smollm3", keys)).ok()) << keys;
  }
}

TEST(ModelConfigWarnings, OriginalPositionsOutsideOfTheObjectAreThoseOfPhi3Alone) {
  const std::string ones = "[1, 1, 1, 1, 1, 1, 1, 1]";
  const std::string positions = R"("max_position_embeddings": 8192, )";
  const std::string llama3 =
      R"("rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0)";
  const std::string longrope = absl::StrCat(R"("rope_type": "longrope", "short_factor": )", ones,
                                            R"(, "long_factor": )", ones);
  const std::string inside = R"(, "original_max_position_embeddings": 32)";
  const std::string outside = R"(, "original_max_position_embeddings": 64)";
  struct Case {
    std::string text;
    int64_t original;
    const char* warning;
  };
  const auto text = [&](const char* family, const char* key, const std::string& object,
                        const std::string& more) {
    return Small(family, absl::StrCat(positions, "\"", key, "\": {", object, "}", more));
  };
  const Case cases[] = {
      {text("llama", "rope_scaling", llama3 + inside, outside), 32,
       "rope_scaling.original_max_position_embeddings: 32 and original_max_position_embeddings: 64;"
       " the former"},
      {text("qwen2", "rope_parameters", llama3 + inside, outside), 32,
       "rope_parameters.original_max_position_embeddings: 32 and "},
      {text("llama", "rope_scaling", llama3, outside), 8192,
       "max_position_embeddings: 8192 and original_max_position_embeddings outside of "
       "rope_scaling: "
       "64; the former"},
      {text("llama", "rope_scaling", llama3 + inside, ""), 32, nullptr},
      {text("gemma3_text", "rope_scaling", llama3 + inside, outside), 32,
       "rope_scaling.original_max_position_embeddings: 32 and original_max_position_embeddings: "
       "64"},
      {text("phi3", "rope_scaling", longrope + inside, outside), 64,
       "original_max_position_embeddings: 64 and rope_scaling.original_max_position_embeddings: 32;"
       " the former"},
      {text("phi3", "rope_scaling", longrope + inside, ""), 4096,
       "original_max_position_embeddings: 4096 (its default) and "
       "rope_scaling.original_max_position_embeddings: 32; the former"},
      {text("phi3", "rope_scaling", longrope, outside), 64, nullptr}};
  for (const Case& c : cases) {
    const auto config = ModelConfig::FromJson(c.text);
    ASSERT_TRUE(config.ok()) << c.text << config.status();
    EXPECT_EQ(config->rope.scaling.original_max_position_embeddings, c.original) << c.text;
    const auto warnings = ModelConfig::Warnings(c.text);
    if (c.warning == nullptr) {
      EXPECT_THAT(warnings, IsEmpty()) << c.text;
    } else {
      EXPECT_THAT(warnings, ElementsAre(HasSubstr(c.warning))) << c.text;
    }
  }
}

}  // namespace
}  // namespace baton
