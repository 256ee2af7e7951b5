#include "workers/engine/model/vocabulary_parallel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/engine/thread_communicator.h"
#include "workers/engine/loss/loss.h"

namespace baton::engine {
namespace {

using torch::Tensor;

struct Scored {
  Tensor log_probs, entropy, gradient;
};

/// Backward from a weighted sum of both.
Scored Score(const Tensor& logits, const Tensor& targets, double temperature, EntropyMode mode,
             const VocabularyShard& shard = {}) {
  const Tensor leaf = logits.clone().requires_grad_(true);
  const TokenScores scores = ScoreTokens(leaf, targets, temperature, mode, {shard});
  const Tensor weights = torch::arange(1, targets.size(0) + 1, torch::kFloat64);
  Tensor total = (scores.log_probs * weights).sum();
  if (mode == EntropyMode::kGradient) total = total + (scores.entropy * weights.flip(0)).sum() * 3;
  total.backward();
  return {scores.log_probs.detach(), scores.entropy.defined() ? scores.entropy.detach() : Tensor(),
          leaf.grad()};
}

TEST(VocabularyParallelTest, EqualLogitsGiveUniformProbabilities) {
  testing::RunRanks(2, [](Communicator& group) {
    const Tensor logits = torch::full({1, group.rank() == 0 ? 3 : 5}, 2.5, torch::kFloat64);
    const VocabularyShard shard{&group, group.rank() == 0 ? 0 : 3};
    const ParallelScores scores =
        ScoreShardedTokens(logits, torch::tensor({int64_t{6}}), shard, false);
    EXPECT_NEAR(scores.log_probs.item<double>(), -std::log(8.0), 1e-12);
    EXPECT_NEAR(scores.entropy.item<double>(), std::log(8.0), 1e-12);
  });
}

TEST(VocabularyParallelTest, EqualsTheWholeVocabulary) {
  torch::manual_seed(1);
  const Tensor logits = torch::randn({6, 7}, torch::kFloat64) * 4;
  const Tensor targets = torch::tensor({0, 1, 2, 4, 5, 6}, torch::kInt64);
  const int64_t begins[] = {0, 2, 4, 7};
  for (const EntropyMode mode : {EntropyMode::kNone, EntropyMode::kValue, EntropyMode::kGradient}) {
    const Scored whole = Score(logits, targets, 0.7, mode);
    testing::RunRanks(3, [&](Communicator& group) {
      const int64_t begin = begins[group.rank()], end = begins[group.rank() + 1];
      const Scored part =
          Score(logits.slice(1, begin, end), targets, 0.7, mode, VocabularyShard{&group, begin});
      EXPECT_TRUE(torch::allclose(part.log_probs, whole.log_probs, 1e-12, 1e-12));
      EXPECT_TRUE(
          torch::allclose(part.gradient, whole.gradient.slice(1, begin, end), 1e-12, 1e-12));
      ASSERT_EQ(part.entropy.defined(), mode != EntropyMode::kNone);
      if (part.entropy.defined()) {
        EXPECT_TRUE(torch::allclose(part.entropy, whole.entropy, 1e-12, 1e-12));
      }
    });
  }
}

TEST(VocabularyParallelTest, FarApartLogitsStayFinite) {
  testing::RunRanks(2, [](Communicator& group) {
    const Tensor logits = torch::full({2, 2}, group.rank() == 0 ? 900.0 : -900.0, torch::kFloat64);
    const Scored part = Score(logits, torch::tensor({0, 3}, torch::kInt64), 1,
                              EntropyMode::kGradient, VocabularyShard{&group, 2 * group.rank()});
    EXPECT_NEAR(part.log_probs[0].item<double>(), -std::log(2.0), 1e-12);
    EXPECT_NEAR(part.log_probs[1].item<double>(), -1800 - std::log(2.0), 1e-9);
    EXPECT_NEAR(part.entropy[0].item<double>(), std::log(2.0), 1e-12);
    EXPECT_TRUE(torch::isfinite(part.gradient).all().item<bool>());
  });
}

TEST(VocabularyParallelTest, TheLikeliestTokenIsFoundAcrossRanks) {
  //                                    first rank    second rank
  const Tensor logits = torch::tensor({{1.0, 5.0, -2.0, 4.0, 0.0},
                                       {-9.0, -8.0, -7.0, -1.0, -3.0},
                                       {2.0, 1.0, 0.0, 2.0, 1.0},  // a tie
                                       {0.0, 1.0, 2.0, 3.0, 4.0}},
                                      torch::kFloat64);
  const auto expect = [&](const Tensor& targets, const std::vector<bool>& wanted) {
    const auto check = [&](const Tensor& largest) {
      for (size_t row = 0; row < wanted.size(); ++row) {
        EXPECT_EQ(largest[static_cast<int64_t>(row)].item<bool>(), wanted[row]) << row;
      }
    };
    check(IsLargest(logits, targets, {}));
    testing::RunRanks(2, [&](Communicator& group) {
      const int64_t begin = group.rank() == 0 ? 0 : 2, end = group.rank() == 0 ? 2 : 5;
      check(IsLargest(logits.slice(1, begin, end), targets, VocabularyShard{&group, begin}));
    });
  };
  expect(torch::tensor({1, 3, 0, 4}, torch::kInt64), {true, true, true, true});
  expect(torch::tensor({3, 1, 3, 0}, torch::kInt64), {false, false, true, false});
}

}  // namespace
}  // namespace baton::engine
