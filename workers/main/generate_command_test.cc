#include "workers/main/generate_command.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "workers/engine/hf_directory.h"
#include "workers/policy/policy_source.h"
#include "workers/policy/policy_testing.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class GenerateCommandTest : public ::testing::Test {
 protected:
  GenerateCommandTest() {
    const auto source = policy::PolicySource::Open(policy::TinySpec().model(), "").value();
    const auto model = source->LoadModel(torch::kFloat32, torch::kCPU, 3).value();
    options_.model = folder_.path() + "/model";
    engine::SaveOptions save;
    save.companions = source->companions();
    EXPECT_TRUE(engine::SaveModel(*model, options_.model, save).ok());
    options_.prompt = "1+2=";
    options_.max_new_tokens = 20;
  }
  absl::StatusOr<std::string> Run() {
    std::string text;
    const absl::Status status = Generate(
        options_, [&text](absl::string_view piece) { text.append(piece.data(), piece.size()); });
    if (!status.ok()) return status;
    return text;
  }

  policy::TemporaryFolder folder_;
  GenerateOptions options_;
};

TEST_F(GenerateCommandTest, IsAFunctionOfTheSeed) {
  const std::string first = Run().value();
  EXPECT_FALSE(first.empty());
  EXPECT_LE(first.size(), 20u);
  EXPECT_EQ(Run().value(), first);
  options_.seed = 2;
  EXPECT_NE(Run().value(), first);
}

TEST_F(GenerateCommandTest, StopsWhereTheModelsPositionsEnd) {
  options_.max_new_tokens = 100000;
  EXPECT_LE(Run().value().size(), 60u);  // 64 positions, 4 of them the prompt's.
}

TEST_F(GenerateCommandTest, NamesWhatIsWrong) {
  options_.chat_template = "vicuna";
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("vicuna"));
  options_.chat_template = "none";
  options_.temperature = -1;
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("temperature"));
  options_.model = "/no/such/model";
  EXPECT_THAT(std::string(Run().status().message()), HasSubstr("/no/such/model"));
}

}  // namespace
}  // namespace baton
