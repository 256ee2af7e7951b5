#include "workers/engine/scalar/scalar_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "relay/weights/file_io.h"
#include "sdk/common/base/test_folder.h"
#include "tests/support/engine/scalar.h"

namespace baton::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::MakeScalar;
using testing::RandomBatch;

class ScalarDirectoryTest : public ::testing::Test {
 protected:
  static nlohmann::json ReadJson(const std::string& path) {
    std::ifstream file(path);
    return nlohmann::json::parse(file);
  }
  static absl::StatusOr<std::unique_ptr<ScalarModel>> Load(const std::string& dir,
                                                           HeadWanted head) {
    return LoadScalarModel(dir, torch::kFloat32, torch::kCPU, head);
  }
  static void ExpectSame(const ScalarModel& a, const ScalarModel& b) {
    ASSERT_EQ(a.parameters().size(), b.parameters().size());
    for (size_t i = 0; i < a.parameters().size(); ++i) {
      EXPECT_EQ(a.parameters()[i].first, b.parameters()[i].first);
      EXPECT_TRUE(torch::equal(a.parameters()[i].second, b.parameters()[i].second))
          << a.parameters()[i].first;
    }
  }

  const TestFolder folder_;
};

TEST_F(ScalarDirectoryTest, RoundTripsAsASequenceClassifier) {
  for (const auto family : {ModelConfig::Family::kLlama, ModelConfig::Family::kQwen2}) {
    const bool llama = family == ModelConfig::Family::kLlama;
    const auto made = MakeScalar(torch::kFloat32, family);
    const std::string dir = folder_.path(llama ? "llama" : "qwen2");
    SaveOptions options;
    options.companions = {{"tokenizer.json", "{}"}};
    options.max_shard_bytes = llama ? 1500 : int64_t{5} << 30;
    ASSERT_TRUE(SaveScalarModel(*made.scalar, dir, options).ok());
    const nlohmann::json config = ReadJson(dir + "/config.json");
    EXPECT_EQ(config["architectures"], nlohmann::json({llama ? "LlamaForSequenceClassification"
                                                             : "Qwen2ForSequenceClassification"}));
    EXPECT_EQ(config["num_labels"], 1);
    EXPECT_EQ(config["id2label"].size(), 1u);
    EXPECT_EQ(relay::ReadFile(dir + "/tokenizer.json").value(), "{}");
    EXPECT_EQ(std::filesystem::exists(dir + "/model.safetensors.index.json"), llama);
    const auto again = Load(dir, HeadWanted::kRequired);
    ASSERT_TRUE(again.ok()) << again.status();
    ExpectSame(*made.scalar, **again);
    EXPECT_EQ((*again)->config(), made.scalar->config());
  }
}

TEST_F(ScalarDirectoryTest, AHeadWithABiasIsATokenClassifiers) {
  const auto model =
      ScalarModel::Create(testing::TinyConfig(), torch::kFloat32, torch::kCPU, true).value();
  torch::NoGradGuard no_grad;
  for (const auto& [name, parameter] : model->parameters()) {
    torch::Tensor values = parameter;
    values.fill_(name == "score.bias" ? 2.5 : 0.0);
  }
  ASSERT_TRUE(SaveScalarModel(*model, folder_.path("m")).ok());
  EXPECT_EQ(ReadJson(folder_.path("m/config.json"))["architectures"][0],
            "LlamaForTokenClassification");
  const auto again = Load(folder_.path("m"), HeadWanted::kRequired).value();
  ExpectSame(*model, *again);
  EXPECT_EQ(ComputeScores(*again, RandomBatch(1, 2, 11)).value()[0], 2.5f);
}

TEST_F(ScalarDirectoryTest, ACriticStartsFromALanguageModelButARewardModelDoesNot) {
  for (const auto family : {ModelConfig::Family::kLlama, ModelConfig::Family::kQwen2}) {
    // Qwen2's head is tied here, Llama's is a tensor of its own.
    const auto actor = testing::MakeModel(testing::TinyConfig(family), torch::kFloat32);
    const std::string dir = folder_.path(family == ModelConfig::Family::kLlama ? "l" : "q");
    ASSERT_TRUE(SaveModel(*actor, dir).ok());
    const auto critic = Load(dir, HeadWanted::kZeroIfMissing);
    ASSERT_TRUE(critic.ok()) << critic.status();
    ExpectSame(**critic, *ScalarModel::FromCausalLM(*actor, torch::kFloat32, torch::kCPU).value());
    const absl::Status refused = Load(dir, HeadWanted::kRequired).status();
    EXPECT_TRUE(absl::IsNotFound(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr(dir), HasSubstr("tensor score.weight is missing"),
                      HasSubstr("reward_model"), HasSubstr("ForCausalLM")));
  }
}

TEST_F(ScalarDirectoryTest, AClassifierWithoutItsHeadIsBroken) {
  const auto made = MakeScalar(torch::kFloat32);
  ASSERT_TRUE(SaveScalarModel(*made.scalar, folder_.path("m")).ok());
  NamedTensors trunk = made.scalar->parameters();
  trunk.pop_back();
  ASSERT_TRUE(
      WeightsImage::Create(trunk).value().WriteFile(folder_.path("m/model.safetensors")).ok());
  for (const HeadWanted head : {HeadWanted::kRequired, HeadWanted::kZeroIfMissing}) {
    EXPECT_THAT(std::string(Load(folder_.path("m"), head).status().message()),
                HasSubstr("tensor score.weight is missing"));
  }
}

TEST_F(ScalarDirectoryTest, OneLabelOnly) {
  const auto made = MakeScalar(torch::kFloat32);
  ASSERT_TRUE(SaveScalarModel(*made.scalar, folder_.path("m")).ok());
  NamedTensors two = made.scalar->parameters();
  two.back().second = torch::zeros({2, 8});
  ASSERT_TRUE(
      WeightsImage::Create(two).value().WriteFile(folder_.path("m/model.safetensors")).ok());
  const absl::Status refused = Load(folder_.path("m"), HeadWanted::kRequired).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("score.weight"));
}

// --- Against transformers (testdata/make_golden.py) ----------------------------------------------

class ScalarGoldenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ScalarGoldenTest, EveryScalarIsTransformers) {
  const std::string dir =
      std::string(std::getenv("BATON_SOURCE_DIR")) + "/workers/engine/testdata/" + GetParam();
  const auto model = LoadScalarModel(dir, torch::kFloat32, torch::kCPU, HeadWanted::kRequired);
  ASSERT_TRUE(model.ok()) << model.status();
  std::ifstream file(dir + "/expected.json");
  const nlohmann::json expected = nlohmann::json::parse(file);
  std::vector<TrainSequence> batch;
  for (const auto& tokens : expected["sequences"]) {
    batch.emplace_back();
    batch.back().tokens = tokens.get<std::vector<int32_t>>();
    batch.back().prompt_length = 1;
  }
  const auto values = ComputeValues(**model, batch).value();
  const auto scores = ComputeScores(**model, batch).value();
  nlohmann::json ours = {{"sequences", expected["sequences"]}, {"values", nlohmann::json::array()}};
  for (size_t i = 0; i < batch.size(); ++i) {
    std::vector<float> row = values[i];  // Values are of rows 0 … L - 2; the score is of row L - 1.
    row.push_back(scores[i]);
    const auto wanted = expected["values"][i].get<std::vector<float>>();
    ASSERT_EQ(row.size(), wanted.size());
    for (size_t r = 0; r < row.size(); ++r) EXPECT_NEAR(row[r], wanted[r], 1e-4);
    ours["values"].push_back(row);
  }
  const char* out = std::getenv("BATON_GOLDEN_OUT");  // For make_golden.py check.
  if (out == nullptr) return;
  const std::string saved = std::string(out) + "/" + GetParam();
  ASSERT_TRUE(SaveScalarModel(**model, saved).ok());
  ASSERT_TRUE(relay::WriteFileAtomically(saved + "/expected.json", ours.dump()).ok());
}

INSTANTIATE_TEST_SUITE_P(Models, ScalarGoldenTest,
                         ::testing::Values("golden_score_llama", "golden_score_mistral",
                                           "golden_score_qwen2", "golden_score_qwen3",
                                           "golden_score_phi3", "golden_score_gemma3"));

}  // namespace
}  // namespace baton::engine
