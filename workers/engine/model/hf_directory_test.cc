#include "workers/engine/model/hf_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <limits>

#include "nlohmann/json.hpp"
#include "relay/weights/file_io.h"
#include "relay/weights/safetensors_writer.h"
#include "sdk/common/base/test_folder.h"
#include "workers/engine/model/attention.h"
#include "workers/engine/model/file_tensors.h"
#include "workers/engine/model/weights_io.h"

namespace baton::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using torch::Tensor;

const char* const kGolden[] = {"llama",
                               "llama_gqa_tied",
                               "llama_llama3_rope",
                               "llama_linear_rope",
                               "qwen2",
                               "qwen2_tied_bf16",
                               "qwen3",
                               "qwen3_bias",
                               "mistral",
                               "qwen2_full_windows",
                               "qwen3_windows",
                               "smollm3",
                               "phi3",
                               "phi3_longrope",
                               "olmo2",
                               "granite",
                               "gemma3",
                               "mistral_short_window",
                               "qwen3_short_window",
                               "smollm3_short_window",
                               "gemma3_short_window"};
/// Those whose expected.json has gradients.
const char* const kGoldenGradients[] = {"qwen2_full_windows",
                                        "qwen3_windows",
                                        "smollm3",
                                        "phi3",
                                        "phi3_longrope",
                                        "olmo2",
                                        "granite",
                                        "gemma3",
                                        "mistral_short_window",
                                        "qwen3_short_window",
                                        "smollm3_short_window",
                                        "gemma3_short_window"};

std::string GoldenDir(const std::string& name) {
  const char* source = std::getenv("BATON_SOURCE_DIR");
  return std::string(source == nullptr ? "." : source) + "/workers/engine/testdata/golden_" + name;
}

std::unique_ptr<CausalLM> Load(const std::string& dir, torch::Dtype dtype = torch::kFloat32) {
  auto model = LoadModel(dir, dtype, torch::kCPU);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

absl::Status LoadError(const std::string& dir) {
  return LoadModel(dir, torch::kFloat32, torch::kCPU).status();
}

nlohmann::json ReadJson(const std::string& path) {
  return nlohmann::json::parse(relay::ReadFile(path).value());
}

/// A golden directory copied into `folder`, in place of an earlier copy; a test may change it.
std::string CopyOfGolden(const TestFolder& folder, const std::string& name) {
  const std::string dir = folder.path("m");
  fs::remove_all(dir);
  fs::copy(GoldenDir(name), dir);
  return dir;
}

using Logits = std::vector<std::vector<std::vector<double>>>;

Logits LogitsOf(CausalLM& model, const std::vector<std::vector<int64_t>>& sequences) {
  torch::NoGradGuard no_grad;
  std::vector<int64_t> lengths, tokens;
  for (const auto& sequence : sequences) {
    lengths.push_back(static_cast<int64_t>(sequence.size()));
    tokens.insert(tokens.end(), sequence.begin(), sequence.end());
  }
  PackedCausalAttention attention(lengths);
  const Tensor hidden =
      model.Hidden(torch::tensor(tokens, torch::kInt64), attention.Positions(), attention);
  const Tensor logits = model.Logits(hidden).to(torch::kFloat64);
  Logits out;
  int64_t row = 0;
  for (int64_t length : lengths) {
    out.emplace_back();
    for (int64_t i = 0; i < length; ++i, ++row) {
      const Tensor values = logits[row].contiguous();
      const double* data = values.data_ptr<double>();
      out.back().emplace_back(data, data + values.numel());
    }
  }
  return out;
}

double LargestDifference(const Logits& a, const Logits& b) {
  EXPECT_EQ(a.size(), b.size());
  double worst = 0;
  for (size_t s = 0; s < a.size(); ++s) {
    EXPECT_EQ(a[s].size(), b[s].size());
    for (size_t n = 0; n < a[s].size(); ++n) {
      EXPECT_EQ(a[s][n].size(), b[s][n].size());
      for (size_t v = 0; v < a[s][n].size(); ++v) {
        worst = std::max(worst, std::abs(a[s][n][v] - b[s][n][v]));
      }
    }
  }
  return worst;
}

class GoldenTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, ::testing::ValuesIn(kGolden),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(GoldenTest, LogitsEqualTransformers) {
  const std::string dir = GoldenDir(GetParam());
  const auto model = Load(dir);
  const nlohmann::json expected = ReadJson(dir + "/expected.json");
  const auto sequences = expected["sequences"].get<std::vector<std::vector<int64_t>>>();
  const Logits logits = LogitsOf(*model, sequences);
  EXPECT_LT(LargestDifference(logits, expected["logits"].get<Logits>()), 1e-4);
}

TEST_P(GoldenTest, SavedAndLoadedAgainIsTheSame) {
  const char* out = std::getenv("BATON_GOLDEN_OUT");  // For testdata/make_golden.py check.
  const TestFolder folder;
  const std::string dir = (out != nullptr ? std::string(out) : folder.path()) + "/" + GetParam();
  const auto model = Load(GoldenDir(GetParam()));
  SaveOptions options;
  options.max_shard_bytes = GetParam() == std::string("llama") ? 9000 : int64_t{5} << 30;
  ASSERT_TRUE(SaveModel(*model, dir, options).ok());
  EXPECT_EQ(fs::exists(dir + "/model.safetensors.index.json"), GetParam() == std::string("llama"));
  const auto again = Load(dir);
  ModelConfig expected = model->config();
  expected.torch_dtype = "float32";  // as it was loaded
  EXPECT_EQ(again->config().ToJson(), expected.ToJson());
  for (size_t i = 0; i < model->parameters().size(); ++i) {
    EXPECT_TRUE(torch::equal(model->parameters()[i].second, again->parameters()[i].second))
        << model->parameters()[i].first;
  }
  if (out != nullptr) {
    const auto sequences = ReadJson(GoldenDir(GetParam()) + "/expected.json")["sequences"];
    const nlohmann::json ours = {
        {"sequences", sequences},
        {"logits", LogitsOf(*model, sequences.get<std::vector<std::vector<int64_t>>>())}};
    ASSERT_TRUE(relay::WriteFileAtomically(dir + "/expected.json", ours.dump()).ok());
  }
}

class GoldenGradientTest : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, GoldenGradientTest, ::testing::ValuesIn(kGoldenGradients),
                         [](const auto& info) { return std::string(info.param); });

/// The sum of the log-probs of all tokens but each sequence's first.
Tensor SumOfLogProbs(CausalLM& model, const std::vector<std::vector<int64_t>>& sequences) {
  Tensor sum = torch::zeros({}, torch::kFloat32);
  for (const auto& sequence : sequences) {
    const auto length = static_cast<int64_t>(sequence.size());
    PackedCausalAttention attention({length});
    const Tensor tokens = torch::tensor(sequence, torch::kInt64);
    const Tensor logits = model.Logits(model.Hidden(tokens, attention.Positions(), attention));
    sum = sum + torch::log_softmax(logits.narrow(0, 0, length - 1), -1)
                    .gather(1, tokens.narrow(0, 1, length - 1).unsqueeze(1))
                    .sum();
  }
  return sum;
}

// Norm and product with cos(0), cos(1), … of each gradient, as make_golden.py has them of torch.
TEST_P(GoldenGradientTest, GradientsEqualTransformers) {
  const std::string dir = GoldenDir(GetParam());
  const auto model = Load(dir);
  const nlohmann::json expected = ReadJson(dir + "/expected.json");
  model->SetRequiresGrad(true);
  SumOfLogProbs(*model, expected["sequences"].get<std::vector<std::vector<int64_t>>>()).backward();
  NamedTensors gradients;
  for (const auto& [name, parameter] : model->parameters()) {
    gradients.emplace_back(name, parameter.grad());
  }
  gradients = TensorsInFiles(model->config(), gradients);
  EXPECT_EQ(gradients.size(), expected["gradients"].size());
  for (const auto& [name, gradient] : gradients) {
    const Tensor flat = gradient.to(torch::kFloat64).flatten();
    const Tensor waves = torch::cos(torch::arange(flat.numel(), torch::kFloat64));
    const auto wanted = expected["gradients"][name].get<std::vector<double>>();
    const double tolerance = 1e-4 * std::max(1.0, wanted[0]);
    EXPECT_NEAR(flat.norm().item<double>(), wanted[0], tolerance) << name;
    EXPECT_NEAR(flat.dot(waves).item<double>(), wanted[1], tolerance) << name;
  }
}

TEST(LoadModel, Phi3KeepsItsTensorsTogetherInFiles) {
  const TestFolder folder;
  const std::string dir = CopyOfGolden(folder, "phi3");
  const auto model = Load(dir);
  const std::string saved = folder.path("saved");
  ASSERT_TRUE(SaveModel(*model, saved).ok());
  EXPECT_EQ(ListTensors(saved).value(), ListTensors(dir).value());
  EXPECT_THAT(ListTensors(saved).value(),
              ::testing::IsSupersetOf({"model.layers.0.mlp.gate_up_proj.weight",
                                       "model.layers.1.self_attn.qkv_proj.weight"}));
  const auto entries = ReadTensorEntries(saved).value();
  for (const relay::TensorEntry& entry : entries) {
    if (entry.name != "model.layers.0.self_attn.qkv_proj.weight") continue;
    EXPECT_EQ(entry.shape, (std::vector<int64_t>{32, 16}));  // 4 heads and 2 * 2 of 4 channels
  }
}

TEST(LoadModel, ConvertsEveryFloatType) {
  const auto model = Load(GoldenDir("qwen2"));
  for (const torch::Dtype stored : {torch::kFloat16, torch::kBFloat16, torch::kFloat32}) {
    const TestFolder folder;
    const std::string dir = folder.path("m");
    SaveOptions options;
    options.dtype = stored;
    ASSERT_TRUE(SaveModel(*model, dir, options).ok());
    EXPECT_EQ(LoadModelConfig(dir)->torch_dtype, *TorchDtypeName(stored));
    for (const torch::Dtype wanted : {torch::kFloat32, torch::kBFloat16}) {
      const auto loaded = Load(dir, wanted);
      EXPECT_EQ(loaded->dtype(), wanted);
      for (size_t i = 0; i < model->parameters().size(); ++i) {
        EXPECT_TRUE(torch::equal(model->parameters()[i].second.to(stored).to(wanted),
                                 loaded->parameters()[i].second));
      }
    }
  }
}

TEST(LoadModel, MissingFilesAreNamed) {
  const TestFolder folder;
  const absl::Status none = LoadError("/no/such/model");
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()), HasSubstr("/no/such/model does not exist"));
  std::string dir = CopyOfGolden(folder, "llama");
  fs::remove(dir + "/model.safetensors");
  EXPECT_EQ(LoadError(dir).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(LoadError(dir).message()), HasSubstr("has neither model.safetensors"));
  fs::remove(dir + "/config.json");
  EXPECT_EQ(LoadError(dir).code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(LoadError(dir).message()), HasSubstr(dir + "/config.json"));
}

TEST(LoadModel, AGgufFileIsNoFolder) {
  const TestFolder folder;
  const std::string file = folder.path("tiny.gguf");
  std::ofstream(file) << "GGUF";
  for (const std::string& path : {file, folder.path()}) {
    const absl::Status status = LoadError(path);
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << path;
    EXPECT_THAT(std::string(status.message()), HasSubstr(file + " is a GGUF file")) << path;
  }
}

TEST(LoadModel, BadConfigNamesFileAndKey) {
  const TestFolder folder;
  const std::string dir = CopyOfGolden(folder, "llama");
  nlohmann::json config = ReadJson(dir + "/config.json");
  config["num_key_value_heads"] = 3;
  ASSERT_TRUE(relay::WriteFileAtomically(dir + "/config.json", config.dump()).ok());
  EXPECT_THAT(std::string(LoadError(dir).message()),
              HasSubstr(dir + "/config.json: num_key_value_heads: 3"));
}

/// Replaces model.safetensors by one in which `change` altered the list of tensors.
template <typename F>
void Rewrite(const std::string& dir, const F& change) {
  NamedTensors tensors = Load(dir)->parameters();
  change(tensors);
  ASSERT_TRUE(WeightsImage::Create(tensors)->WriteFile(dir + "/model.safetensors").ok());
}

TEST(LoadModel, WrongTensorsNameFileAndTensor) {
  const TestFolder folder;
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  const auto find = [&](NamedTensors & tensors) -> auto& {
    return *std::find_if(tensors.begin(), tensors.end(),
                         [&](const auto& t) { return t.first == name; });
  };
  const auto expect = [&](const std::string& dir, absl::StatusCode code, const char* message) {
    const absl::Status status = LoadError(dir);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(dir + "/model.safetensors: tensor " + name + message));
  };
  std::string dir = CopyOfGolden(folder, "llama");
  Rewrite(dir, [&](NamedTensors& tensors) {
    tensors.erase(tensors.begin() + (&find(tensors) - tensors.data()));
  });
  expect(dir, absl::StatusCode::kNotFound, " is missing");
  dir = CopyOfGolden(folder, "llama");
  Rewrite(dir, [&](NamedTensors& tensors) { find(tensors).second = torch::zeros({16, 15}); });
  expect(dir, absl::StatusCode::kInvalidArgument, " has shape [16, 15], [16, 16] is needed");
  dir = CopyOfGolden(folder, "llama");
  Rewrite(dir, [&](NamedTensors& tensors) {
    find(tensors).second = torch::zeros({16, 16}, torch::kInt32);
  });
  expect(dir, absl::StatusCode::kInvalidArgument, " has dtype I32, one of F32, F16, BF16");
}

TEST(LoadModel, ATensorWithoutAPlaceIsRefused) {
  const TestFolder folder;
  for (const char* name : {"model.layers.0.self_attn.q_proj.bias", "other"}) {
    const std::string dir = CopyOfGolden(folder, "llama");
    Rewrite(dir, [&](NamedTensors& tensors) { tensors.emplace_back(name, torch::zeros({16})); });
    EXPECT_EQ(LoadError(dir).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(LoadError(dir).message()),
                HasSubstr(std::string("tensor ") + name + " has no place in the model"));
  }
  const std::string dir = CopyOfGolden(folder, "llama");  // old files carry what is computed anyhow
  Rewrite(dir, [&](NamedTensors& tensors) {
    tensors.emplace_back("model.layers.0.self_attn.rotary_emb.inv_freq", torch::zeros({4}));
  });
  EXPECT_TRUE(LoadError(dir).ok()) << LoadError(dir);
}

TEST(LoadModel, ATiedModelMayCarryItsHead) {
  const TestFolder folder;
  for (const char* name : {"llama_gqa_tied", "qwen2_tied_bf16"}) {
    const std::string dir = CopyOfGolden(folder, name);
    Rewrite(dir, [&](NamedTensors& tensors) {
      for (size_t i = 0, n = tensors.size(); i < n; ++i) {
        if (tensors[i].first == "model.embed_tokens.weight") {
          tensors.emplace_back("lm_head.weight", tensors[i].second);
        }
      }
    });
    const auto model = Load(dir);
    EXPECT_TRUE(model->config().tie_word_embeddings);
    const nlohmann::json expected = ReadJson(dir + "/expected.json");
    EXPECT_LT(LargestDifference(
                  LogitsOf(*model, expected["sequences"].get<std::vector<std::vector<int64_t>>>()),
                  expected["logits"].get<Logits>()),
              1e-4)
        << name;
  }
}

// transformers 5.24 on such a folder: "we will NOT tie them". The expected logits are those that it
// computes with the file's own head.
TEST(LoadModel, AnotherHeadInTheFilesIsNotTied) {
  const TestFolder folder;
  for (const char* name : {"llama", "qwen2"}) {  // one file, and several with an index
    const std::string dir = CopyOfGolden(folder, name);
    nlohmann::json config = ReadJson(dir + "/config.json");
    ASSERT_FALSE(config["tie_word_embeddings"].get<bool>());
    config["tie_word_embeddings"] = true;
    ASSERT_TRUE(relay::WriteFileAtomically(dir + "/config.json", config.dump()).ok());
    const auto model = Load(dir);
    EXPECT_FALSE(model->config().tie_word_embeddings);
    EXPECT_THAT(ConfigWarnings(model->config(), dir),
                ::testing::ElementsAre(HasSubstr("have another lm_head.weight")));
    EXPECT_THAT(ConfigWarnings(model->config(), GoldenDir(name)), ::testing::IsEmpty());
    const nlohmann::json expected = ReadJson(dir + "/expected.json");
    EXPECT_LT(LargestDifference(
                  LogitsOf(*model, expected["sequences"].get<std::vector<std::vector<int64_t>>>()),
                  expected["logits"].get<Logits>()),
              1e-4)
        << name;
    // The config.json that is written says so itself.
    const std::string saved = folder.path(std::string("saved-") + name);
    ASSERT_TRUE(SaveModel(*model, saved).ok());
    EXPECT_FALSE(ReadJson(saved + "/config.json")["tie_word_embeddings"].get<bool>());
    const std::string converted = folder.path(std::string("converted-") + name);
    ASSERT_TRUE(ConvertModel(dir, "bfloat16", converted).ok());
    EXPECT_FALSE(ReadJson(converted + "/config.json")["tie_word_embeddings"].get<bool>());
    // Without weights nothing but config.json is there to ask.
    for (const auto& entry : fs::directory_iterator(dir)) {
      if (entry.path().string().find("safetensors") != std::string::npos) fs::remove(entry.path());
    }
    EXPECT_TRUE(LoadModelConfig(dir)->tie_word_embeddings);
  }
}

TEST(LoadModel, TruncatedWeightsAreAnError) {
  const TestFolder folder;
  const std::string dir = CopyOfGolden(folder, "llama");
  const std::string path = dir + "/model.safetensors";
  fs::resize_file(path, fs::file_size(path) - 1);
  EXPECT_EQ(LoadError(dir).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(LoadError(dir).message()), HasSubstr(path));
  EXPECT_THAT(std::string(LoadError(dir).message()), HasSubstr("is the file truncated?"));
}

TEST(LoadModel, AnIndexMustNameFilesBesideIt) {
  const TestFolder folder;
  const std::string dir = CopyOfGolden(folder, "qwen2");
  const std::string path = dir + "/model.safetensors.index.json";
  const nlohmann::json good = ReadJson(path);
  const auto error_with = [&](const nlohmann::json& index) {
    EXPECT_TRUE(relay::WriteFileAtomically(path, index.dump()).ok());
    return std::string(LoadError(dir).message());
  };
  EXPECT_EQ(error_with(good), "");
  nlohmann::json index = good;
  index["weight_map"]["model.norm.weight"] = "../model.safetensors";
  EXPECT_THAT(error_with(index), HasSubstr("weight_map of model.norm.weight is not the name"));
  index = good;
  index["weight_map"]["model.norm.weight"] = "absent.safetensors";
  EXPECT_THAT(error_with(index), HasSubstr("absent.safetensors"));
  index = good;
  index["weight_map"].erase("model.norm.weight");
  EXPECT_THAT(error_with(index), HasSubstr("tensor model.norm.weight is in no shard"));
  EXPECT_THAT(error_with(nlohmann::json::array()), HasSubstr("weight_map"));
}

// transformers loads every tensor of every file, so that the last file would count.
TEST(LoadModel, ATensorInTwoFilesIsRefused) {
  const TestFolder folder;
  const std::string dir = CopyOfGolden(folder, "qwen2");
  const nlohmann::json index = ReadJson(dir + "/model.safetensors.index.json");
  std::string other = "model-00001-of-00002.safetensors";
  if (index["weight_map"]["model.norm.weight"] == other) other = "model-00002-of-00002.safetensors";
  NamedTensors tensors = {{"model.norm.weight", torch::ones({16})}};
  const auto file = relay::SafetensorsFile::Open(dir + "/" + other).value();
  for (const relay::TensorEntry& entry : file->view().entries()) {
    tensors.emplace_back(entry.name, BorrowTensor(file->view(), entry)->clone());
  }
  ASSERT_TRUE(WeightsImage::Create(tensors)->WriteFile(dir + "/" + other).ok());
  EXPECT_EQ(LoadError(dir).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(LoadError(dir).message()),
              HasSubstr("tensor model.norm.weight is in model-00001-of-00002.safetensors and in "
                        "model-00002-of-00002.safetensors"));
  EXPECT_FALSE(ReadTensorEntries(dir).ok());  // the check at submit
}

TEST(LoadModel, AWeightThatIsNoNumberIsRefused) {
  const TestFolder folder;
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 1e6f}) {
    const std::string dir = CopyOfGolden(folder, "llama");
    Rewrite(dir, [&](NamedTensors& tensors) {
      for (auto& [name, tensor] : tensors) {
        if (name == "model.layers.1.mlp.up_proj.weight") {
          tensor = tensor.clone();
          tensor[2][3] = bad;
        }
      }
    });
    // 1e6 is a number in float32, and none in float16.
    EXPECT_EQ(LoadError(dir).ok(), bad == 1e6f);
    const absl::Status half = LoadModel(dir, torch::kFloat16, torch::kCPU).status();
    EXPECT_EQ(half.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(half.message()),
                HasSubstr("tensor model.layers.1.mlp.up_proj.weight has a value that is NaN or "
                          "infinite as Half"));
  }
}

TEST(SaveModel, CopiesTheTokenizerAndGenerationConfig) {
  const auto model = Load(GoldenDir("llama"));
  const TestFolder folder;
  const std::string source = folder.path("source");
  constexpr char kTemplate[] = "additional_chat_templates/tool_use.jinja";
  fs::create_directories(source + "/additional_chat_templates");
  for (const char* file :
       {"tokenizer.json", "tokenizer_config.json", "generation_config.json", kTemplate}) {
    ASSERT_TRUE(relay::WriteFileAtomically(source + "/" + file, file).ok());
  }
  ASSERT_TRUE(relay::WriteFileAtomically(source + "/secret.txt", "not copied").ok());
  const std::string dir = folder.path("a/b/");
  SaveOptions options;
  const auto companions = ReadCompanions(source);
  ASSERT_TRUE(companions.ok()) << companions.status();
  options.companions = *companions;
  fs::remove_all(source);  // as a checkpoint that gave way to newer ones
  ASSERT_TRUE(SaveModel(*model, dir, options).ok());
  EXPECT_EQ(*relay::ReadFile(dir + "tokenizer.json"), "tokenizer.json");
  EXPECT_EQ(*relay::ReadFile(dir + "tokenizer_config.json"), "tokenizer_config.json");
  EXPECT_EQ(*relay::ReadFile(dir + "generation_config.json"), "generation_config.json");
  EXPECT_EQ(*relay::ReadFile(dir + kTemplate), kTemplate);
  EXPECT_FALSE(fs::exists(dir + "secret.txt"));

  const std::string plain = folder.path("m");
  ASSERT_TRUE(SaveModel(*model, plain).ok());
  const nlohmann::json generation = ReadJson(plain + "/generation_config.json");
  EXPECT_EQ(generation["eos_token_id"], 2);
  EXPECT_EQ(generation["bos_token_id"], 1);
}

TEST(SaveModel, NeverOverwritesAndLeavesNothingHalf) {
  const auto model = Load(GoldenDir("llama"));
  const TestFolder folder;
  const std::string dir = folder.path("m");
  ASSERT_TRUE(SaveModel(*model, dir).ok());
  EXPECT_EQ(SaveModel(*model, dir).code(), absl::StatusCode::kAlreadyExists);
  SaveOptions options;
  options.companions = {{"no/such/folder.json", ""}};
  EXPECT_EQ(SaveModel(*model, folder.path("n"), options).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadCompanions("/no/such/tokenizer").status().code(), absl::StatusCode::kNotFound);
  fs::create_directory(folder.path("empty"));
  EXPECT_TRUE(SaveModel(*model, folder.path("empty")).ok());
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    left.push_back(entry.path().filename());
  }
  EXPECT_THAT(left, ::testing::UnorderedElementsAre("m", "empty"));
}

}  // namespace
}  // namespace baton::engine
