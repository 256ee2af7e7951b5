// Greedy responses of the golden models (testdata/make_golden.py) with the cache of keys and
// values, beside those that transformers computes from the whole sequence for every token.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "relay/weights/file_io.h"
#include "tests/support/engine/generator.h"
#include "workers/engine/model/hf_directory.h"

namespace baton::engine {
namespace {

class GeneratorGoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  GeneratorGoldenTest() {
    const char* source = std::getenv("BATON_SOURCE_DIR");
    dir_ = std::string(source == nullptr ? "." : source) + "/workers/engine/testdata/golden_" +
           GetParam();
    expected_ = nlohmann::json::parse(relay::ReadFile(dir_ + "/expected.json").value());
    prompt_ = expected_["sequences"].back().get<std::vector<int32_t>>();
    greedy_ = expected_["greedy"].get<std::vector<int32_t>>();
  }

  std::string dir_;
  nlohmann::json expected_;
  std::vector<int32_t> prompt_, greedy_;
};
INSTANTIATE_TEST_SUITE_P(Models, GeneratorGoldenTest,
                         ::testing::Values("qwen2_full_windows", "qwen3_windows", "smollm3", "phi3",
                                           "phi3_longrope", "olmo2", "granite", "gemma3",
                                           "mistral_short_window", "qwen3_short_window",
                                           "smollm3_short_window", "gemma3_short_window"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(GeneratorGoldenTest, GreedyTokensEqualTransformers) {
  // float64 takes libtorch's operators, float32 the kernels.
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {
    const auto model = LoadModel(dir_, dtype, torch::kCPU).value();
    const auto decode = [](absl::Span<const int32_t>) { return std::string(); };
    const auto generator = Generator::Create(model.get(), decode, GeneratorOptions()).value();
    const auto count = static_cast<int64_t>(greedy_.size());
    ASSERT_TRUE(generator->Add(Request(1, prompt_, count, 0.0)).ok());
    EXPECT_EQ(Finish(*generator)[1].tokens, greedy_);
  }
}

TEST_P(GeneratorGoldenTest, ASequenceBeyondThePositionsIsRefused) {
  const auto model = LoadModel(dir_, torch::kFloat32, torch::kCPU).value();
  const auto decode = [](absl::Span<const int32_t>) { return std::string(); };
  const auto generator = Generator::Create(model.get(), decode, GeneratorOptions()).value();
  const int64_t positions = GetParam() == std::string("phi3_longrope") ? 32 : 128;
  EXPECT_EQ(model->config().positions(), positions);
  const int64_t room = positions - static_cast<int64_t>(prompt_.size());
  EXPECT_TRUE(generator->Add(Request(1, prompt_, room, 0.0)).ok());
  EXPECT_FALSE(generator->Add(Request(2, prompt_, room + 1, 0.0)).ok());
}

}  // namespace
}  // namespace baton::engine
