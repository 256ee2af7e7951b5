#include "workers/engine/loss/micro_batch.h"

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

TEST(PlanMicroBatchesTest, MakesNoMicroBatchesWithoutTokens) {
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
  EXPECT_EQ(message(Sequence({1, 2, 3, 4, 5}, 1)), "");  // what follows the last one is not needed
  EXPECT_THAT(
      message(Sequence({1, 2, 3, 4, 5, 6}, 1)),
      HasSubstr("sequence 1: prompt and response of 6 tokens exceed the model's 4 positions"));
  TrainSequence masked = Sequence({1, 2, 3}, 1);
  masked.loss_mask = {1};
  EXPECT_THAT(message(masked), HasSubstr("loss_mask has 1 entries for a response of 2"));
}

TEST(MicroBatchTest, CostsByHand) {
  ModelConfig config;
  config.vocab_size = 10;
  config.hidden_size = 8;
  config.intermediate_size = 12;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 1;
  config.head_dim = 4;
  const SequenceCost cost = CostOf(config);
  // A layer: q and o 8 x 8 each, k and v 8 x 4 each, three of 8 x 12; the head 8 x 10.
  EXPECT_EQ(cost.per_token, 2 * (64 + 64 + 32 + 32 + 3 * 96) + 80);
  EXPECT_EQ(cost.per_token_squared, 2 * 8);  // Half of n x n twice, 8 channels, 2 layers.
}

TEST(MicroBatchTest, BalancedByCost) {
  const SequenceCost linear{1, 0};
  const auto plan = [&](std::vector<int64_t> lengths, int64_t budget) {
    return PlanBalancedMicroBatches(lengths, linear, budget);
  };
  // 20 rows in two: {0, 3} and {1, 4}; one long beside one short each.
  EXPECT_THAT(*plan({7, 6, 0, 3, 4}, 12), ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4)));
  EXPECT_THAT(*plan({7, 6, 0, 3, 4}, 0), ElementsAre(ElementsAre(0, 1, 3, 4)));
  // Three of 4 need three micro-batches of at most 7, though their rows would fit in two.
  EXPECT_THAT(*plan({4, 4, 4}, 7), ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
  EXPECT_TRUE(plan({0, 0}, 7)->empty());
  EXPECT_TRUE(plan({}, 7)->empty());
  EXPECT_EQ(plan({3, 8}, 7).status().message(),
            "max_token_len: 7 cannot hold sequence 1, which has 8 rows; raise max_token_len or "
            "shorten the sequence");
  // With attention's square a long sequence weighs more than as many rows of short ones.
  const auto squared = PlanBalancedMicroBatches({8, 4, 4, 4, 4}, SequenceCost{1, 1}, 16);
  EXPECT_THAT(*squared, ElementsAre(ElementsAre(0), ElementsAre(1, 2, 3, 4)));
}

/// One sequence per letter: T a pretraining text, any other the policy's.
std::vector<TrainSequence> Sequences(const std::string& letters) {
  std::vector<TrainSequence> batch;
  for (const char letter : letters) {
    batch.emplace_back();
    batch.back().tokens = {letter};
    batch.back().pretraining = letter == 'T' || letter == 'U' || letter == 'V';
  }
  return batch;
}

std::string Letters(const std::vector<TrainSequence>& batch) {
  std::string letters;
  for (const TrainSequence& s : batch) letters.push_back(static_cast<char>(s.tokens[0]));
  return letters;
}

/// The batch with a bar after each mini-batch.
std::string Cut(const std::string& letters, size_t size) {
  const std::vector<TrainSequence> batch = Sequences(letters);
  std::string out;
  for (size_t begin = 0, end = 0; begin < batch.size(); begin = end) {
    end = MiniBatchEnd(batch, begin, size);
    out += letters.substr(begin, end - begin) + "|";
    if (end <= begin) return out + " stuck";
  }
  return out;
}

TEST(MiniBatchTest, CountsThePolicysSequences) {
  EXPECT_EQ(Cut("abcde", 2), "ab|cd|e|");
  EXPECT_EQ(Cut("abcd", 9), "abcd|");
  EXPECT_EQ(Cut("TabUVcd", 2), "Tab|UVcd|") << "texts go with what follows them";
  EXPECT_EQ(Cut("aTbcdU", 2), "aTb|cdU|") << "and with the last at the end";
  EXPECT_EQ(Cut("TU", 2), "TU|");
  EXPECT_EQ(Cut("", 2), "");
}

TEST(MiniBatchTest, TextsAreSpreadEvenly) {
  const auto spread = [](const std::string& letters, size_t size) {
    return Letters(SpreadPretraining(Sequences(letters), size));
  };
  EXPECT_EQ(spread("abcdTU", 2), "TabUcd");
  EXPECT_EQ(spread("TUVabcde", 2), "TabUcdVe");
  EXPECT_EQ(spread("abcdeTU", 2), "TabUcde");
  EXPECT_EQ(spread("abTUV", 0), "TUVab");
  EXPECT_EQ(spread("TU", 2), "TU");
  EXPECT_EQ(spread("abc", 2), "abc");
  EXPECT_EQ(Cut(spread("abcdefTUV", 2), 2), "Tab|Ucd|Vef|");
}

}  // namespace
}  // namespace baton::engine
