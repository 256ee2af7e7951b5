#include "sdk/common/schema_spec/rewarding_nodes.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

v1::Dataflow Graph(const char* text) {
  v1::Dataflow graph;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &graph));
  return graph;
}

TEST(RewardingNodes, AreTheSourcesAndAllThatTheyNeed) {
  const v1::Dataflow graph = Graph(R"(
      score { node: "judge" out: "judged" inputs: "tokens" inputs: "facts" }
      score { node: "values" out: "values" inputs: "judged" }
      score { node: "facts" out: "facts" }
      score { node: "rule" out: "rule" }
      score { node: "cost" out: "cost" }
      advantage { rewards { key: "judged" value: 0.5 } rewards { key: "rule" value: 2 } })");
  EXPECT_THAT(RewardingNodes(graph), ElementsAre(true, false, true, true, false));
  EXPECT_EQ(RewardWeights(graph).at("judged"), 0.5);
}

TEST(RewardingNodes, WithoutWeightsTheRewardIsTheColumnOfThatName) {
  const v1::Dataflow graph = Graph(R"(
      score { node: "values" out: "values" }
      score { node: "rule" out: "reward" })");
  EXPECT_THAT(RewardingNodes(graph), ElementsAre(false, true));
  EXPECT_EQ(RewardWeights(graph).at("reward"), 1);
}

}  // namespace
}  // namespace baton
