#include "workers/engine/generation/draft_tree.h"

#include <limits>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr DraftLimits kRoomy = {100, 100, 100};

TEST(DraftTreeTest, AChainIsATreeOfOnePath) {
  const DraftTree chain = ChainDraft({7, 7, 2});
  EXPECT_THAT(chain.tokens, ElementsAre(7, 7, 2));
  EXPECT_THAT(chain.parents, ElementsAre(-1, 0, 1));
  EXPECT_THAT(DraftDepths(chain), ElementsAre(0, 1, 2));
  EXPECT_EQ(ChainDraft({}).size(), 0);
}

TEST(DraftTreeTest, DepthsCountAncestors) {
  EXPECT_THAT(DraftDepths({{1, 2, 3, 4, 5}, {-1, -1, 0, 2, 1}}), ElementsAre(0, 0, 1, 2, 1));
}

// The rest of `tree`.
DraftTree Pruned(DraftTree tree, const DraftLimits& limits = kRoomy) {
  PruneDraft(limits, &tree);
  return tree;
}

TEST(DraftTreeTest, AGoodTreeStaysAsItIs) {
  const DraftTree tree = {{1, 2, 1, 4, 5}, {-1, -1, 0, 2, 1}};
  DraftTree pruned = tree;
  EXPECT_THAT(PruneDraft(kRoomy, &pruned), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(pruned.tokens, tree.tokens);
  EXPECT_EQ(pruned.parents, tree.parents);
}

TEST(DraftTreeTest, ATokenOutsideTheVocabularyTakesItsDescendantsAlong) {
  DraftTree tree = {{-1, 5, 100, 6, 7, 99}, {-1, 0, -1, 2, -1, 4}};
  EXPECT_THAT(PruneDraft(kRoomy, &tree), ElementsAre(4, 5));
  EXPECT_THAT(tree.tokens, ElementsAre(7, 99));
  EXPECT_THAT(tree.parents, ElementsAre(-1, 0));
}

TEST(DraftTreeTest, ARepeatedSiblingIsLeftOut) {
  const DraftTree pruned = Pruned({{5, 5, 6, 5, 6}, {-1, -1, 1, 0, 0}});
  EXPECT_THAT(pruned.tokens, ElementsAre(5, 5, 6));
  EXPECT_THAT(pruned.parents, ElementsAre(-1, 0, 0));
}

TEST(DraftTreeTest, NodesWithoutAnEarlierParentAreLeftOut) {
  const DraftTree pruned =
      Pruned({{1, 2, 3, 4, 5}, {0, 4, -2, -1, std::numeric_limits<int32_t>::max()}});
  EXPECT_THAT(pruned.tokens, ElementsAre(4));
  EXPECT_THAT(pruned.parents, ElementsAre(-1));
  EXPECT_THAT(Pruned({{1, 2, 3}, {}}).tokens, IsEmpty());
  EXPECT_THAT(Pruned({{}, {-1, 0}}).tokens, IsEmpty());
}

TEST(DraftTreeTest, KeepsTheLimits) {
  const DraftTree tree = {{1, 2, 3, 4, 5}, {-1, 0, 1, -1, 3}};
  EXPECT_THAT(Pruned(tree, {100, 2, 100}).tokens, ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(Pruned(tree, {100, 2, 100}).parents, ElementsAre(-1, 0, -1, 2));
  EXPECT_THAT(Pruned(tree, {100, 2, 4}).tokens, ElementsAre(1, 2, 4));
  EXPECT_THAT(Pruned(tree, {100, 1, 100}).tokens, ElementsAre(1, 4));
  EXPECT_THAT(Pruned(tree, {100, 0, 100}).tokens, IsEmpty());
  EXPECT_THAT(Pruned(tree, {100, -3, 100}).tokens, IsEmpty());
  EXPECT_THAT(Pruned(tree, {100, 100, 2}).tokens, ElementsAre(1, 2));
}

TEST(DraftTreeTest, PrunesAnyInputToAValidTree) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    DraftTree tree;
    for (int i = static_cast<int>(random() % 40); i > 0; --i) {
      tree.tokens.push_back(static_cast<int32_t>(random() % 12) - 2);
    }
    for (int i = static_cast<int>(random() % 40); i > 0; --i) {
      tree.parents.push_back(static_cast<int32_t>(random() % 44) - 4);
    }
    DraftTree pruned = tree;
    const std::vector<int32_t> kept = PruneDraft({8, 3, 20}, &pruned);
    ASSERT_EQ(pruned.tokens.size(), kept.size());
    ASSERT_EQ(pruned.parents.size(), kept.size());
    ASSERT_LE(pruned.size(), 20);
    for (int32_t i = 0; i < pruned.size(); ++i) {
      ASSERT_EQ(pruned.tokens[i], tree.tokens[kept[i]]);
      ASSERT_GE(pruned.parents[i], -1);
      ASSERT_LT(pruned.parents[i], i);
      ASSERT_GE(pruned.tokens[i], 0);
      ASSERT_LT(pruned.tokens[i], 8);
      for (int32_t j = 0; j < i; ++j) {
        ASSERT_FALSE(pruned.parents[i] == pruned.parents[j] &&
                     pruned.tokens[i] == pruned.tokens[j]);
      }
    }
    for (const int32_t depth : DraftDepths(pruned)) ASSERT_LT(depth, 3);
  }
}

}  // namespace
}  // namespace baton::engine
