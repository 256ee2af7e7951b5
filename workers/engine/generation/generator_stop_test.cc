// Tests of where a response ends: stop tokens, stop strings, the least number of tokens.
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/engine/generator.h"
#include "workers/engine/generation/generator.h"

namespace baton::engine {
namespace {

TEST(GeneratorStopTest, StopTokensEndTheResponseAndBelongToIt) {
  const auto model = MakeModel();
  GenerateRequest request = Request(1, {4, 5, 6}, 30);
  const Response whole = RunAlone(model.get(), request, Deterministic());
  request.params.stop_token_ids = {whole.tokens[9]};
  const size_t first =
      std::find(whole.tokens.begin(), whole.tokens.end(), whole.tokens[9]) - whole.tokens.begin();
  const Response stopped = RunAlone(model.get(), request, Deterministic());
  EXPECT_EQ(stopped.finish_reason, "stop");
  EXPECT_EQ(stopped.tokens,
            std::vector<int32_t>(whole.tokens.begin(), whole.tokens.begin() + first + 1));
}

TEST(GeneratorStopTest, StopAtTheLastTokenIsAStop) {
  const auto model = MakeModel();
  GenerateRequest request = Request(1, {4, 5, 6}, 1);
  const int32_t token = RunAlone(model.get(), request, Deterministic()).tokens[0];
  request.params.stop_token_ids = {token};
  EXPECT_EQ(RunAlone(model.get(), request, Deterministic()).finish_reason, "stop");
}

TEST(GeneratorStopTest, NoStopTokenBeforeTheMinimum) {
  const auto model = MakeModel();
  GenerateRequest request = Request(1, {4, 5, 6}, 30);
  for (int64_t id = 0; id < kVocab / 2; ++id) request.params.stop_token_ids.push_back(id);
  request.params.min_new_tokens = 12;
  for (uint64_t prompt_id = 0; prompt_id < 10; ++prompt_id) {
    request.key.prompt_id = prompt_id;
    const Response response = RunAlone(model.get(), request, Deterministic());
    ASSERT_GT(response.tokens.size(), 12u);
    for (int i = 0; i < 12; ++i) EXPECT_GE(response.tokens[i], kVocab / 2);
  }
}

TEST(GeneratorStopTest, StopStringsAcrossTokens) {
  const auto model = MakeModel();
  GenerateRequest request = Request(1, {4, 5, 6}, 40);
  const Response whole = RunAlone(model.get(), request, Deterministic());
  const std::string text = Decode(whole.tokens);
  // The end of one piece and the beginning of the next, three pieces on.
  const std::string stop = Decode(absl::MakeConstSpan(whole.tokens).subspan(20, 4));
  request.params.stop_strings = {"no such text", stop};
  const Response stopped = RunAlone(model.get(), request, Deterministic());
  EXPECT_EQ(stopped.finish_reason, "stop");
  const std::string stopped_text = Decode(stopped.tokens);
  EXPECT_EQ(stopped_text, text.substr(0, text.find(stop) + stop.size()));
}

}  // namespace
}  // namespace baton::engine
