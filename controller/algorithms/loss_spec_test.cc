#include "controller/algorithms/loss_spec.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::algorithms {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(LossSpecTest, EveryLossStandsWithoutOptions) {
  for (const std::string& name : LossNames()) {
    EXPECT_THAT(CheckLoss(name, {}).problems, IsEmpty()) << name;
  }
}

TEST(LossSpecTest, SaysWhichColumnsItNeeds) {
  EXPECT_THAT(CheckLoss("sft", {}).columns, IsEmpty());
  EXPECT_THAT(CheckLoss("ppo_clip", {{"use_kl_loss", true}}).columns,
              ElementsAre("advantages", "rollout_log_prob", "ref_log_prob"));
  EXPECT_THAT(CheckLoss("reinforce", {}).columns, ElementsAre("advantages"));
  EXPECT_THAT(CheckLoss("reinforce", {{"rollout_is", std::string("token")}}).columns,
              ElementsAre("advantages", "rollout_log_prob", "old_log_prob"));
  EXPECT_THAT(CheckLoss("value", {}).columns, ElementsAre("returns", "values"));
  EXPECT_THAT(CheckLoss("value", {{"cliprange_value", 0.0}}).columns, ElementsAre("returns"));
}

TEST(LossSpecTest, AllMistakesAreListedAtOnce) {
  const LossCheck check = CheckLoss("ppo_clip", {{"clip_ratio_c", 0.5},
                                                 {"clip_ratio_low", 1.5},
                                                 {"cliprange_value", 0.5},
                                                 {"loss_agg_mode", std::string("mean")}});
  EXPECT_THAT(std::string(ToStatus(check.problems).message()),
              AllOf(HasSubstr("clip_ratio_c: 0.5 is not above 1"),
                    HasSubstr("clip_ratio_low: 1.5 is not in [0, 1]"),
                    HasSubstr("cliprange_value: ppo_clip has no such option"),
                    HasSubstr("'mean' is not one of: token-mean, seq-mean-token-sum")));
  EXPECT_THAT(CheckLoss("ppo", {}).problems[0].message,
              AllOf(HasSubstr("'ppo'"), HasSubstr("reinforce, value")));
}

}  // namespace
}  // namespace baton::algorithms
