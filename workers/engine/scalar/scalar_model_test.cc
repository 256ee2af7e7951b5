#include "workers/engine/scalar/scalar_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/engine/plain_model.h"
#include "tests/support/engine/scalar.h"

namespace baton::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MakeScalar;
using testing::PlainModel;
using testing::RandomBatch;

TEST(ScalarModel, ValuesAreThoseOfTheStateBeforeEachToken) {
  for (const auto family : {ModelConfig::Family::kLlama, ModelConfig::Family::kQwen2}) {
    const auto made = MakeScalar(torch::kFloat64, family);
    const PlainModel plain(*made.language_model);
    const std::vector<TrainSequence> batch = RandomBatch(1, 9, 11);
    const auto values = ComputeValues(*made.scalar, batch, 20);
    ASSERT_TRUE(values.ok()) << values.status();
    for (size_t i = 0; i < batch.size(); ++i) {
      const TrainSequence& s = batch[i];
      ASSERT_EQ(static_cast<int64_t>((*values)[i].size()), s.response_length());
      const auto logits = plain.Logits({s.tokens.begin(), s.tokens.end()});
      for (int64_t r = 0; r < s.response_length(); ++r) {
        // Token prompt_length + r is not yet seen by row prompt_length + r - 1.
        EXPECT_NEAR((*values)[i][r], logits[s.prompt_length + r - 1][0], 1e-6);
      }
    }
  }
}

TEST(ScalarModel, AScoreIsThatOfTheLastToken) {
  const auto made = MakeScalar(torch::kFloat64);
  const PlainModel plain(*made.language_model);
  const std::vector<TrainSequence> batch = RandomBatch(2, 9, 11);
  const auto scores = ComputeScores(*made.scalar, batch, 20);
  ASSERT_TRUE(scores.ok()) << scores.status();
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto& tokens = batch[i].tokens;
    EXPECT_NEAR((*scores)[i], plain.Logits({tokens.begin(), tokens.end()}).back()[0], 1e-6);
  }
}

TEST(ScalarModel, StartsFromAnActorUnderAHeadOfZeros) {
  const auto actor = testing::MakeModel(testing::TinyConfig(), torch::kFloat32);
  const auto critic = ScalarModel::FromCausalLM(*actor, torch::kFloat32, torch::kCPU).value();
  const auto values = ComputeValues(*critic, RandomBatch(3, 5, 11)).value();
  for (const auto& row : values) {
    for (const float value : row) EXPECT_EQ(value, 0);
  }
  std::vector<std::string> names;
  for (const auto& [name, parameter] : critic->parameters()) names.push_back(name);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  EXPECT_EQ(names.back(), "score.weight");
  EXPECT_THAT(critic->parameters().back().second.sizes().vec(), ElementsAre(1, 8));
  EXPECT_EQ(names.size(), actor->parameters().size());  // The head in place of lm_head.
  // The critic has a copy: the actor goes on alone.
  torch::NoGradGuard no_grad;
  actor->parameters()[1].second.add_(1);
  EXPECT_FALSE(torch::equal(actor->parameters()[1].second, critic->parameters()[0].second));
}

TEST(ScalarModel, DeterministicScalarsDoNotDependOnTheBatch) {
  const auto made = MakeScalar(torch::kFloat32);
  made.scalar->SetDeterministic(true);
  const std::vector<TrainSequence> batch = RandomBatch(4, 13, 11);
  const auto values = ComputeValues(*made.scalar, batch, 24).value();
  const auto scores = ComputeScores(*made.scalar, batch, 24).value();
  const auto together = ComputeValues(*made.scalar, batch).value();
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto one = absl::MakeConstSpan(&batch[i], 1);
    EXPECT_EQ(ComputeValues(*made.scalar, one).value()[0], values[i]);
    EXPECT_EQ(together[i], values[i]);
    EXPECT_EQ(ComputeScores(*made.scalar, one).value()[0], scores[i]);
  }
}

TEST(ScalarModel, NamesWhatItCannotScore) {
  const auto made = MakeScalar(torch::kFloat32);
  TrainSequence longest;
  longest.tokens.assign(65, 1);  // One more than there are positions.
  longest.prompt_length = 1;
  EXPECT_TRUE(ComputeValues(*made.scalar, {longest}).ok());
  EXPECT_THAT(std::string(ComputeScores(*made.scalar, {longest}).status().message()),
              HasSubstr("65 tokens exceed the model's 64 positions"));
  longest.tokens[3] = 11;
  EXPECT_THAT(std::string(ComputeValues(*made.scalar, {longest}).status().message()),
              HasSubstr("position 3: token 11"));
  torch::NoGradGuard no_grad;
  torch::Tensor head = made.scalar->parameters().back().second;
  head.fill_(std::numeric_limits<float>::quiet_NaN());
  longest.tokens.resize(4);
  longest.tokens[3] = 2;
  EXPECT_TRUE(absl::IsFailedPrecondition(ComputeScores(*made.scalar, {longest}).status()));
}

}  // namespace
}  // namespace baton::engine
