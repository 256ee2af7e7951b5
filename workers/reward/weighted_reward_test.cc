#include "workers/reward/weighted_reward.h"

#include <cmath>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::reward {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// Gives the same result to every response.
class FixedReward : public RewardFunction {
 public:
  explicit FixedReward(absl::StatusOr<RewardResult> result) : result_(std::move(result)) {}
  absl::StatusOr<RewardResult> Score(const RewardInput&) override { return result_; }

 private:
  const absl::StatusOr<RewardResult> result_;
};

WeightedPart Part(const std::string& name, double weight, absl::StatusOr<RewardResult> result) {
  return {name, weight, std::make_unique<FixedReward>(std::move(result))};
}

template <typename... Parts>
absl::StatusOr<std::unique_ptr<RewardFunction>> Make(Parts... parts) {
  std::vector<WeightedPart> list;
  (list.push_back(std::move(parts)), ...);
  return CreateWeightedReward(std::move(list));
}

TEST(WeightedRewardTest, SumsAndNamesScores) {
  auto reward = Make(Part("a", 0.5, RewardResult{2, {{"length", 7}}, ""}),
                     Part("b", -1, RewardResult{0.25, {{"accuracy", 1}}, ""}),
                     Part("c", 0, RewardResult{1, {{"accuracy", 0}}, ""}));
  ASSERT_TRUE(reward.ok()) << reward.status();
  const auto result = *(*reward)->Score({});
  EXPECT_DOUBLE_EQ(result.reward, 0.5 * 2 - 0.25);
  EXPECT_THAT(result.scores,
              ElementsAre(Pair("a", 2), Pair("a/length", 7), Pair("accuracy", 1), Pair("b", 0.25),
                          Pair("b/accuracy", 1), Pair("c", 1), Pair("c/accuracy", 0)));
}

TEST(WeightedRewardTest, ErrorsNameThePart) {
  auto reward = Make(Part("a", 1, RewardResult{2, {}, ""}), Part("b", 1, RewardResult{0, {}, "no"}),
                     Part("c", 1, RewardResult{0, {}, "nor this"}));
  EXPECT_EQ((*reward)->Score({})->error, "b: no; c: nor this");
  EXPECT_FALSE((*reward)->Score({})->infra_failed);
  RewardResult crashed;
  crashed.error = "crashed";
  crashed.infra_failed = true;
  auto infra = Make(Part("a", 1, RewardResult{0, {}, "no"}), Part("b", 1, crashed));
  EXPECT_TRUE((*infra)->Score({})->infra_failed);
  auto broken = Make(Part("d", 1, absl::UnavailableError("gone")));
  const auto status = (*broken)->Score({}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "d: gone");
}

// A rule that is limited to other sources, or lacks an answer.
TEST(WeightedRewardTest, APartThatSkipsAResponseHasNoScore) {
  RewardResult skipped{1, {{"accuracy", 0}}, ""};
  skipped.skipped = true;
  skipped.note = "the line has no answer to compare with";
  auto reward = Make(Part("a", 1, skipped), Part("b", 1, RewardResult{0.5, {{"accuracy", 1}}, ""}));
  const auto judged = *(*reward)->Score({});
  EXPECT_FALSE(judged.skipped);
  EXPECT_EQ(judged.reward, 0.5);
  EXPECT_THAT(judged.scores,
              ElementsAre(Pair("accuracy", 1), Pair("b", 0.5), Pair("b/accuracy", 1)));
  EXPECT_EQ(judged.note, "a: the line has no answer to compare with");
  auto alone = Make(Part("a", 1, skipped));
  EXPECT_TRUE((*alone)->Score({})->skipped) << "no part judges it";
  EXPECT_EQ((*alone)->Score({})->reward, 0);
  EXPECT_TRUE((*alone)->Score({})->scores.empty());
}

TEST(WeightedRewardTest, BatchKeepsOrder) {
  auto reward = Make(Part("a", 3, RewardResult{1, {}, ""}));
  const std::vector<RewardInput> inputs(4);
  const auto results = (*reward)->ScoreBatch(inputs);
  ASSERT_EQ(results->size(), 4u);
  for (const auto& result : *results) EXPECT_EQ(result.reward, 3);
}

TEST(WeightedRewardTest, BadPartsAreNamed) {
  EXPECT_THAT(std::string(Make().status().message()), HasSubstr("no rule and no command"));
  EXPECT_THAT(
      std::string(
          Make(Part("a", 1, RewardResult()), Part("a", 1, RewardResult())).status().message()),
      HasSubstr("'a'"));
  EXPECT_THAT(std::string(Make(Part("a", NAN, RewardResult())).status().message()),
              HasSubstr("weight of 'a'"));
}

}  // namespace
}  // namespace baton::reward
