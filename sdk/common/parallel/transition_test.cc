#include "sdk/common/parallel/transition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/sdk/transition.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

RankLayout Layout(int p, int t, int d, int p_g, int t_g) { return {p, t, d, p_g, t_g}; }

void ExpectFractions(const RankLayout& layout, TransitionMethod method, double received,
                     double peak, double redundant) {
  const TransitionFractions fractions = TransitionFormula(layout, method);
  EXPECT_DOUBLE_EQ(fractions.received, received);
  EXPECT_DOUBLE_EQ(fractions.peak, peak);
  EXPECT_DOUBLE_EQ(fractions.redundant, redundant);
}

// The paper's example: eight ranks, 1-4-2 to 1-2-2-2.
TEST(TransitionTest, FormulaOfThePapersExample) {
  const RankLayout layout = Layout(1, 4, 2, 1, 2);
  EXPECT_EQ(LayoutName(layout), "1-4-2_1-2-2-2");
  ExpectFractions(layout, TransitionMethod::kGatherAll, 7.0 / 8, 1, 1.0 / 8);
  ExpectFractions(layout, TransitionMethod::kGatherTensor, 3.0 / 4, 1, 1.0 / 4);
  ExpectFractions(layout, TransitionMethod::kHybrid, 1.0 / 4, 1.0 / 2, 0);
}

// Worked out by hand: 2-4-1 to 1-2: d_g = 4; a generation shard is half of the model, of which a
// rank has a quarter.
TEST(TransitionTest, FormulaWithStages) {
  const RankLayout layout = Layout(2, 4, 1, 1, 2);
  EXPECT_EQ(LayoutName(layout), "2-4-1_1-2-4-1");
  ExpectFractions(layout, TransitionMethod::kGatherTensor, 7.0 / 8, 1, 1.0 / 8);
  ExpectFractions(layout, TransitionMethod::kHybrid, 3.0 / 8, 1.0 / 2, 0);
}

TEST(TransitionTest, AnUnchangedLayoutMovesNothing) {
  ExpectFractions(Layout(2, 4, 3, 2, 4), TransitionMethod::kHybrid, 0, 1.0 / 8, 0);
}

TEST(TransitionTest, GroupsOfThePapersExample) {
  const RankLayout layout = Layout(1, 4, 2, 1, 2);
  EXPECT_THAT(MicroDataRanks(layout, 0), ElementsAre(0, 1));
  EXPECT_THAT(MicroDataRanks(layout, 3), ElementsAre(2, 3));
  EXPECT_THAT(MicroDataRanks(layout, 6), ElementsAre(6, 7));
  EXPECT_THAT(GenerationTensorRanks(layout, 0), ElementsAre(0, 2));
  EXPECT_THAT(GenerationTensorRanks(layout, 3), ElementsAre(1, 3));
  EXPECT_THAT(GenerationTensorRanks(layout, 4), ElementsAre(4, 6));
}

// Ranks 0 to 3 are stage 0, 4 to 7 stage 1.
TEST(TransitionTest, GroupsAcrossStages) {
  const RankLayout layout = Layout(2, 4, 1, 1, 2);
  EXPECT_THAT(MicroDataRanks(layout, 0), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(MicroDataRanks(layout, 7), ElementsAre(2, 3, 6, 7));
  EXPECT_THAT(GenerationTensorRanks(layout, 5), ElementsAre(5, 7));
}

TEST(TransitionTest, AGroupsOrderIsThatOfItsPlaces) {
  for (const RankLayout& layout : {Layout(4, 6, 2, 2, 3), Layout(3, 4, 1, 3, 1)}) {
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      const std::vector<int> micro = MicroDataRanks(layout, rank);
      ASSERT_EQ(static_cast<int>(micro.size()), layout.micro_data());
      EXPECT_EQ(micro[layout.MicroDataRank(rank)], rank);
      const std::vector<int> tensor = GenerationTensorRanks(layout, rank);
      ASSERT_EQ(static_cast<int>(tensor.size()), layout.generation_tensor);
      EXPECT_EQ(tensor[layout.GenerationTensorRank(rank)], rank);
    }
  }
}

}  // namespace
}  // namespace baton
