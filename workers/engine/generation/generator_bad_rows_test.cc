// Rows of logits that nothing can be sampled from.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/engine/generator.h"

namespace baton::engine {
namespace {

using ::testing::HasSubstr;

std::map<uint64_t, absl::Status> FinishWithErrors(Generator& generator, Responses* responses) {
  std::map<uint64_t, absl::Status> errors;
  for (int step = 0; !generator.idle() && step < 1000; ++step) {
    const auto updates = generator.Step();
    EXPECT_TRUE(updates.ok()) << updates.status();
    if (!updates.ok()) break;
    for (const GenerateUpdate& update : *updates) {
      Response& response = (*responses)[update.id];
      response.tokens.insert(response.tokens.end(), update.new_tokens.begin(),
                             update.new_tokens.end());
      response.log_probs.insert(response.log_probs.end(), update.new_log_probs.begin(),
                                update.new_log_probs.end());
      response.finish_reason = update.finish_reason;
      EXPECT_EQ(update.finish_reason == "error", !update.error.ok());
      if (!update.error.ok()) errors[update.id] = update.error;
    }
  }
  return errors;
}

TEST(GeneratorTest, OneBadRowEndsOneRequest) {
  constexpr int32_t kBad = 31;
  for (const torch::Dtype dtype : {torch::kFloat32, torch::kFloat64}) {  // kernel and operators
    const auto clean = MakeModel(1, dtype);
    const auto model = MakeModel(1, dtype);
    SetEmbedding(*model, kBad, std::nan(""));
    const auto generator = MakeGenerator(model.get());
    std::vector<GenerateRequest> good;
    for (uint64_t id = 1; id <= 6; ++id) good.push_back(Request(id, {1, 2, 3}, 12, 0.7));
    GenerateRequest bad_prompt = Request(7, {1, kBad, 3}, 12);
    GenerateRequest bad_prompt_again = Request(8, {1, kBad, 3}, 12);
    GenerateRequest bad_response = Request(9, {1, 2, 3}, 12);  // of the good ones' prompt
    bad_response.resume = {4, kBad};
    ASSERT_TRUE(generator->Add(bad_prompt).ok());
    for (const GenerateRequest& request : good) ASSERT_TRUE(generator->Add(request).ok());
    ASSERT_TRUE(generator->Add(bad_prompt_again).ok());
    ASSERT_TRUE(generator->Add(bad_response).ok());
    Responses responses;
    const auto errors = FinishWithErrors(*generator, &responses);
    int unaware = 0;
    for (const GenerateRequest& request : good) {
      const Response alone = RunAlone(clean.get(), request, {});
      // The last token is drawn and never computed.
      const bool drew = std::count(alone.tokens.begin(), alone.tokens.end() - 1, kBad) > 0;
      unaware += drew ? 0 : 1;
      EXPECT_EQ(errors.count(request.id), drew ? 1u : 0u) << request.id;
      if (!drew) {
        EXPECT_EQ(responses[request.id].tokens, alone.tokens);
      }
    }
    EXPECT_GE(unaware, 3);
    ASSERT_EQ(errors.count(7) + errors.count(8) + errors.count(9), 3u);
    EXPECT_EQ(errors.at(7).code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(errors.at(7).message()), HasSubstr("response token 0: cannot sample"));
    EXPECT_THAT(std::string(errors.at(9).message()), HasSubstr("response token 2: "));
    EXPECT_TRUE(responses[7].tokens.empty());
    EXPECT_EQ(generator->stats().free_blocks, generator->stats().total_blocks);
    // The results of the bad rows are forgotten, and their blocks serve others.
    CopyParameters(*clean, model.get());
    for (GenerateRequest request : {bad_prompt, good[0]}) {
      request.id += 100;
      ASSERT_TRUE(generator->Add(request).ok());
      EXPECT_EQ(Finish(*generator)[request.id].tokens, RunAlone(clean.get(), request, {}).tokens);
    }
  }
}

TEST(GeneratorTest, DivergedWeightsEndEveryRequestWithAnError) {
  const auto model = MakeModel(1);
  const auto spare = MakeModel(1);
  const auto generator = MakeGenerator(model.get(), Deterministic());
  {
    const torch::NoGradGuard no_grad;
    torch::Tensor weight = model->parameters()[0].second;
    weight.fill_(std::nan(""));
  }
  ASSERT_TRUE(generator->Add(Request(1, {1, 2, 3}, 5)).ok());
  ASSERT_TRUE(generator->Add(Request(2, {1, 2, 4}, 5)).ok());
  Responses responses;
  EXPECT_EQ(FinishWithErrors(*generator, &responses).size(), 2u);
  EXPECT_TRUE(generator->idle());
  EXPECT_EQ(generator->stats().free_blocks, generator->stats().total_blocks);
  CopyParameters(*spare, model.get());
  const GenerateRequest request = Request(1, {1, 2, 3}, 5);
  ASSERT_TRUE(generator->Add(request).ok());
  EXPECT_EQ(Finish(*generator)[1], RunAlone(spare.get(), request, Deterministic()));
}

}  // namespace
}  // namespace baton::engine
