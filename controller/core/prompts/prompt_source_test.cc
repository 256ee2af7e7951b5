#include "controller/core/prompts/prompt_source.h"

#include <set>

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

TEST(PromptSourceTest, AnEpochDrawsEveryPromptOnce) {
  PromptSource source(101, 7, true);
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < 101; ++i) seen.insert(source.At(epoch * 101 + i));
    EXPECT_EQ(seen.size(), 101u);
    EXPECT_EQ(*seen.rbegin(), 100u);
  }
}

TEST(PromptSourceTest, APromptDependsOnItsIndexAlone) {
  PromptSource forward(50, 3, true), backward(50, 3, true);
  std::vector<uint64_t> a(500), b(500);
  for (uint64_t i = 0; i < 500; ++i) a[i] = forward.At(i);
  for (uint64_t i = 500; i-- > 0;) b[i] = backward.At(i);
  EXPECT_EQ(a, b);
}

TEST(PromptSourceTest, EpochsAndSeedsDiffer) {
  PromptSource one(50, 1, true), two(50, 2, true);
  int same_epoch = 0, same_seed = 0;
  for (uint64_t i = 0; i < 50; ++i) {
    same_epoch += one.At(i) == one.At(50 + i);
    same_seed += one.At(i) == two.At(i);
  }
  EXPECT_LT(same_epoch, 10);  // one of fifty on average
  EXPECT_LT(same_seed, 10);
}

TEST(PromptSourceTest, WithoutShuffleTheOrderIsTheFiles) {
  PromptSource source(3, 1, false);
  for (uint64_t i = 0; i < 9; ++i) EXPECT_EQ(source.At(i), i % 3);
}

}  // namespace
}  // namespace baton::controller
