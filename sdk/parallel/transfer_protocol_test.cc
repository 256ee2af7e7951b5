#include "sdk/parallel/transfer_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <set>
#include <string>

namespace baton {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// All layouts of up to 12 ranks with their generation sizes.
std::vector<RankLayout> Layouts() {
  std::vector<RankLayout> layouts;
  for (int p = 1; p <= 4; ++p) {
    for (int t = 1; t <= 4; ++t) {
      for (int d = 1; p * t * d <= 12; ++d) {
        for (int pg = 1; pg <= p; ++pg) {
          for (int tg = 1; tg <= t; ++tg) {
            const RankLayout layout{p, t, d, pg, tg};
            if (layout.Validate().ok()) layouts.push_back(layout);
          }
        }
      }
    }
  }
  return layouts;
}

std::vector<int> Rows(int count) {
  std::vector<int> rows(count);
  std::iota(rows.begin(), rows.end(), 100);
  return rows;
}

// The example of the paper: 1-4-2 for training, 1-2-2-2 for generation.
TEST(RankLayoutTest, ThePapersExample) {
  const RankLayout layout{1, 4, 2, 1, 2};
  ASSERT_TRUE(layout.Validate().ok());
  EXPECT_EQ(layout.world_size(), 8);
  EXPECT_EQ(layout.micro_data(), 2);
  std::vector<int> tensor, micro, replica;
  for (int rank = 0; rank < 8; ++rank) {
    tensor.push_back(layout.GenerationTensorRank(rank));
    micro.push_back(layout.MicroDataRank(rank));
    replica.push_back(layout.Replica(rank));
  }
  EXPECT_THAT(tensor, ElementsAre(0, 0, 1, 1, 0, 0, 1, 1));  // floor(r / 2)
  EXPECT_THAT(micro, ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));   // r mod 2
  EXPECT_THAT(replica, ElementsAre(0, 1, 0, 1, 2, 3, 2, 3));
}

TEST(RankLayoutTest, PlacesAndRanksAgree) {
  for (const RankLayout& layout : Layouts()) {
    std::set<std::vector<int>> shards;
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      EXPECT_EQ(layout.RankOf(layout.PlaceOf(rank)), rank);
      // Every replica has each generation shard once.
      shards.insert(
          {layout.Replica(rank), layout.GenerationStage(rank), layout.GenerationTensorRank(rank)});
    }
    EXPECT_EQ(static_cast<int>(shards.size()), layout.world_size());
  }
}

TEST(RankLayoutTest, NamesEverySizeThatIsWrong) {
  EXPECT_EQ((RankLayout{2, 4, 0, 3, 3}).Validate().message(),
            "data: 0 is below 1; generation_pipeline: 3 does not divide pipeline (2); "
            "generation_tensor: 3 does not divide tensor (4)");
}

TEST(TransferProtocolTest, SplitByHand) {
  const RankLayout layout{2, 2, 2, 1, 2};  // Copies are ranks 0..3 and 4..7.
  const auto inputs = ThreeD::Distribute(layout, Rows(5));
  for (int rank = 0; rank < 4; ++rank) EXPECT_THAT(inputs[rank], ElementsAre(100, 101));
  for (int rank = 4; rank < 8; ++rank) EXPECT_THAT(inputs[rank], ElementsAre(102, 103, 104));
  // Ranks 2 and 6 answer: last stage, tensor rank 0.
  PerRank<std::vector<std::string>> outputs(8, {"wrong"});
  outputs[2] = {"a"};
  outputs[6] = {"b", "c"};
  EXPECT_THAT(*ThreeD::Collect(layout, outputs), ElementsAre("a", "b", "c"));

  // Replicas: stages 0 and 1 of a copy are one each (t_g = t), so {0,1} {2,3} {4,5} {6,7}.
  const auto micro = ThreeDAllMicroDp::Distribute(layout, Rows(5));
  EXPECT_THAT(micro[1], ElementsAre(100));
  EXPECT_THAT(micro[2], ElementsAre(101));
  EXPECT_THAT(micro[7], ElementsAre(103, 104));

  const auto padded = DataSplit::Distribute(RankLayout{1, 1, 4}, Rows(5));
  EXPECT_THAT(padded[2], ElementsAre(104, 100));
  EXPECT_THAT(padded[3], ElementsAre(101, 102));
  EXPECT_THAT(DataSplit::Distribute(RankLayout{1, 1, 4}, Rows(1)), Each(ElementsAre(100)));
}

TEST(TransferProtocolTest, CollectOfDistributeIsTheIdentity) {
  for (const RankLayout& layout : Layouts()) {
    for (int size = 0; size <= 17; ++size) {
      const std::vector<int> batch = Rows(size);
      EXPECT_EQ(*ThreeD::Collect(layout, ThreeD::Distribute(layout, batch)), batch);
      EXPECT_EQ(*ThreeDAllMicroDp::Collect(layout, ThreeDAllMicroDp::Distribute(layout, batch)),
                batch);
      const auto padded = DataSplit::Distribute(layout, batch);
      for (const auto& part : padded) EXPECT_EQ(part.size(), padded[0].size());
      EXPECT_EQ(*DataSplit::Collect(layout, padded, batch.size()), batch);
      const auto same = *OneToAll::Collect(layout, OneToAll::Distribute(layout, batch));
      EXPECT_EQ(static_cast<int>(same.size()), layout.world_size());
      EXPECT_THAT(same, Each(batch));
      const auto stages =
          *ThreeDPipelineOnly::Collect(layout, ThreeDPipelineOnly::Distribute(layout, batch));
      EXPECT_EQ(static_cast<int>(stages.size()), layout.pipeline);
      EXPECT_THAT(stages, Each(batch));
    }
    const std::vector<int> own = Rows(layout.world_size());
    EXPECT_EQ(*AllToAll::Collect(layout, *AllToAll::Distribute(layout, own)), own);
  }
}

// What is split reaches every rank that needs it and no row is with two data ranks.
TEST(TransferProtocolTest, SplitsAreEvenAndDisjoint) {
  for (const RankLayout& layout : Layouts()) {
    const auto inputs = ThreeD::Distribute(layout, Rows(17));
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      const int data = layout.PlaceOf(rank).data;
      EXPECT_EQ(inputs[rank], inputs[layout.RankOf({data, 0, 0})]);
      EXPECT_LE(inputs[rank].size(), 17u / layout.data + 1);
      EXPECT_GE(inputs[rank].size(), 17u / layout.data);
    }
  }
}

TEST(TransferProtocolTest, OneOutputPerRank) {
  const RankLayout layout{1, 2, 2};
  EXPECT_EQ(ThreeD::Collect(layout, PerRank<std::vector<int>>(3)).status().message(),
            "3 ranks' parts for a layout of 4 ranks");
  EXPECT_FALSE(OneToAll::Collect(layout, PerRank<int>(5)).ok());
  EXPECT_FALSE(ThreeDAllMicroDp::Collect(layout, PerRank<std::vector<int>>(5)).ok());
  EXPECT_FALSE(ThreeDPipelineOnly::Collect(layout, PerRank<int>(5)).ok());
  EXPECT_FALSE(AllToAll::Distribute(layout, PerRank<int>(1)).ok());
  EXPECT_EQ(DataSplit::Collect(layout, PerRank<std::vector<int>>(4), 2).status().message(),
            "the ranks answered with 0 rows for a batch of 2");
}

TEST(TransferProtocolTest, MovesWhatCannotBeCopied) {
  const RankLayout layout{1, 1, 2};
  PerRank<std::vector<std::unique_ptr<int>>> outputs(2);
  outputs[0].push_back(std::make_unique<int>(1));
  outputs[1].push_back(std::make_unique<int>(2));
  const auto batch = ThreeD::Collect(layout, std::move(outputs));
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(*(*batch)[1], 2);
}

TEST(TransferProtocolTest, Names) {
  for (const char* name :
       {"ONE_TO_ALL", "3D_PROTO", "3D_ALL_MICRO_DP", "3D_PP_ONLY", "DP_PROTO", "ALL_TO_ALL"}) {
    ASSERT_TRUE(ParseTransferProtocol(name).ok());
    EXPECT_EQ(TransferProtocolName(*ParseTransferProtocol(name)), name);
  }
  EXPECT_THAT(ParseTransferProtocol("3D").status().message(),
              HasSubstr("\"3D\" is not ONE_TO_ALL"));
}

}  // namespace
}  // namespace baton
