#include "workers/engine/micro_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace baton::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int64_t> Values(const torch::Tensor& t) {
  return std::vector<int64_t>(t.data_ptr<int64_t>(), t.data_ptr<int64_t>() + t.numel());
}

TrainSequence Sequence(std::vector<int32_t> tokens, int64_t prompt_length) {
  TrainSequence s;
  s.tokens = std::move(tokens);
  s.prompt_length = prompt_length;
  return s;
}

TEST(PlanMicroBatchesTest, LongestFirstWithinThePaddedBudget) {
  // Budget 20: 9 and 9 fill 18; 7 and 3 (padded to 7) fill 14, a third of 7 would make 21; 3 and 2.
  const std::vector<int64_t> lengths = {3, 9, 2, 7, 3, 9};
  auto plan = PlanMicroBatches(lengths, 20);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(*plan, ElementsAre(ElementsAre(1, 5), ElementsAre(3, 0), ElementsAre(4, 2)));
}

TEST(PlanMicroBatchesTest, NoLimitIsOneMicroBatch) {
  const std::vector<int64_t> lengths = {1, 5, 0, 5};
  auto plan = PlanMicroBatches(lengths, 0);
  ASSERT_TRUE(plan.ok());
  EXPECT_THAT(*plan, ElementsAre(ElementsAre(1, 3, 0)));
}

TEST(PlanMicroBatchesTest, NothingToDo) {
  auto plan = PlanMicroBatches(std::vector<int64_t>{0, 0}, 10);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->empty());
}

TEST(PlanMicroBatchesTest, ASequenceAboveTheBudgetIsNamed) {
  auto plan = PlanMicroBatches(std::vector<int64_t>{4, 11}, 10);
  ASSERT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("sequence 1, which has 11 rows"));
}

TEST(PlanMicroBatchesTest, EveryItemOnceAndNeverAboveTheBudget) {
  std::mt19937 rng(3);
  for (int round = 0; round < 100; ++round) {
    std::vector<int64_t> lengths(1 + rng() % 50);
    for (auto& length : lengths) length = 1 + static_cast<int64_t>(rng() % 30);
    const int64_t budget = 30 + static_cast<int64_t>(rng() % 100);
    auto plan = PlanMicroBatches(lengths, budget);
    ASSERT_TRUE(plan.ok());
    std::vector<int> seen(lengths.size());
    for (const auto& micro_batch : *plan) {
      int64_t longest = 0;
      for (int64_t i : micro_batch) {
        ++seen[i];
        longest = std::max(longest, lengths[i]);
      }
      EXPECT_LE(longest * static_cast<int64_t>(micro_batch.size()), budget);
    }
    EXPECT_THAT(seen, ::testing::Each(1));
  }
}

TEST(PackRowsTest, RowsPredictTheirNextToken) {
  std::vector<TrainSequence> batch = {Sequence({1, 2, 3, 4, 5}, 2), Sequence({6, 7}, 1),
                                      Sequence({8, 9, 10}, 3)};
  batch[0].loss_mask = {1, 0, 1};
  const PackedRows all = PackRows(batch, std::vector<int64_t>{1, 0}, ResponseRows::kAll);
  EXPECT_THAT(Values(all.tokens), ElementsAre(6, 1, 2, 3, 4));
  EXPECT_THAT(all.lengths, ElementsAre(1, 4));
  EXPECT_THAT(Values(all.prediction_rows), ElementsAre(0, 2, 3, 4));
  EXPECT_THAT(Values(all.targets), ElementsAre(7, 3, 4, 5));
  EXPECT_THAT(all.sequence_index, ElementsAre(1, 0, 0, 0));
  EXPECT_THAT(all.response_index, ElementsAre(0, 0, 1, 2));

  const PackedRows unmasked = PackRows(batch, std::vector<int64_t>{0, 2}, ResponseRows::kUnmasked);
  EXPECT_THAT(Values(unmasked.tokens), ElementsAre(1, 2, 3, 4, 8, 9));
  EXPECT_THAT(Values(unmasked.prediction_rows), ElementsAre(1, 3));
  EXPECT_THAT(Values(unmasked.targets), ElementsAre(3, 5));
  EXPECT_THAT(unmasked.response_index, ElementsAre(0, 2));
  EXPECT_EQ(batch[0].CountUnmasked(), 2);
  EXPECT_EQ(batch[1].CountUnmasked(), 1);
  EXPECT_EQ(batch[2].CountUnmasked(), 0);
}

TEST(ValidateSequencesTest, NamesTheSequenceAndTheFault) {
  const auto message = [](TrainSequence s) {
    const std::vector<TrainSequence> batch = {Sequence({1, 2}, 1), std::move(s)};
    ModelConfig config;
    config.vocab_size = 10;
    config.max_position_embeddings = 4;
    return std::string(ValidateSequences(batch, config).message());
  };
  EXPECT_EQ(message(Sequence({1, 9}, 1)), "");
  EXPECT_EQ(message(Sequence({1, 9}, 2)), "");
  EXPECT_THAT(message(Sequence({1, 9}, 0)), HasSubstr("sequence 1: prompt_length 0"));
  EXPECT_THAT(message(Sequence({1, 9}, 3)), HasSubstr("sequence 1: prompt_length 3"));
  EXPECT_THAT(message(Sequence({}, 0)), HasSubstr("sequence 1"));
  EXPECT_THAT(message(Sequence({1, 10}, 1)), HasSubstr("sequence 1, position 1: token 10"));
  EXPECT_THAT(message(Sequence({-1, 1}, 1)), HasSubstr("sequence 1, position 0: token -1"));
  EXPECT_EQ(message(Sequence({1, 2, 3, 4, 5}, 1)), "");  // nobody needs what follows the last one
  EXPECT_THAT(
      message(Sequence({1, 2, 3, 4, 5, 6}, 1)),
      HasSubstr("sequence 1: prompt and response of 6 tokens exceed the model's 4 positions"));
  TrainSequence masked = Sequence({1, 2, 3}, 1);
  masked.loss_mask = {1};
  EXPECT_THAT(message(masked), HasSubstr("loss_mask has 1 entries for a response of 2"));
}

}  // namespace
}  // namespace baton::engine
