#include "controller/runtime/payloads/partial_response.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/messages/columns.h"

namespace baton::controller {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

PartialResponse Of(std::vector<int32_t> tokens) {
  PartialResponse partial;
  partial.log_probs.assign(tokens.size(), -1);
  partial.tokens = std::move(tokens);
  return partial;
}

v1::Generate Filled(const PartialResponse& partial) {
  v1::Generate generate;
  partial.Fill(&generate);
  return generate;
}

TEST(PartialResponseTest, ResumesFromItsTokens) {
  const v1::Generate generate = Filled(Of({1, 2, 3}));
  EXPECT_THAT(generate.resume_tokens(), ElementsAre(1, 2, 3));
  EXPECT_THAT(generate.resume_log_probs(), ElementsAre(-1, -1, -1));
  EXPECT_THAT(generate.draft_tokens(), IsEmpty());
}

TEST(PartialResponseTest, AStoppedResponseIsTakenWhole) {
  const std::vector<int32_t> tokens = {4, 5, 6};
  const std::vector<float> log_probs = {-1, -2, -3}, sampling = {-1, 0, 0};
  v1::TaskResult result;
  *result.add_columns() = MakeColumn("tokens", true, absl::MakeConstSpan(tokens));
  *result.add_columns() = MakeColumn("rollout_log_prob", true, absl::MakeConstSpan(log_probs));
  PartialResponse partial = Of({4});
  partial.TakeAll(result);
  EXPECT_THAT(Filled(partial).resume_tokens(), ElementsAre(4, 5, 6));
  EXPECT_THAT(Filled(partial).resume_log_probs(), ElementsAre(-1, -2, -3));
  EXPECT_THAT(Filled(partial).resume_sampling_log_probs(), IsEmpty());
  *result.add_columns() = MakeColumn("sampling_log_prob", true, absl::MakeConstSpan(sampling));
  partial.TakeAll(result);
  EXPECT_THAT(Filled(partial).resume_sampling_log_probs(), ElementsAre(-1, 0, 0));
}

TEST(PartialResponseTest, BecomesADraftForOtherWeights) {
  PartialResponse partial = Of({1, 2, 3});
  partial.BecomeDraft();
  const v1::Generate generate = Filled(partial);
  EXPECT_THAT(generate.resume_tokens(), IsEmpty());
  EXPECT_THAT(generate.resume_log_probs(), IsEmpty());
  EXPECT_THAT(generate.draft_tokens(), ElementsAre(1, 2, 3));
}

TEST(PartialResponseTest, KeepsTheRestOfADraftUntilATokenDiffers) {
  PartialResponse partial = Of({1, 2, 3, 4});
  partial.BecomeDraft();
  v1::Progress progress;
  progress.add_tokens(1);
  progress.add_log_probs(-2);
  partial.Append(progress);
  EXPECT_THAT(Filled(partial).resume_tokens(), ElementsAre(1));
  EXPECT_THAT(Filled(partial).draft_tokens(), ElementsAre(2, 3, 4));
  // The next weights may go on with all of it.
  PartialResponse moved = partial;
  moved.BecomeDraft();
  EXPECT_THAT(Filled(moved).draft_tokens(), ElementsAre(1, 2, 3, 4));
  // Not once a token differed.
  progress.set_tokens(0, 9);
  partial.Append(progress);
  EXPECT_THAT(Filled(partial).resume_tokens(), ElementsAre(1, 9));
  EXPECT_THAT(Filled(partial).draft_tokens(), IsEmpty());
  partial.BecomeDraft();
  EXPECT_THAT(Filled(partial).draft_tokens(), ElementsAre(1, 9));
}

}  // namespace
}  // namespace baton::controller
