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

TEST(LossSpecTest, EveryCorrectionNeedsBothLogProbs) {
  const Options corrections[] = {
      {{"rollout_is", std::string("sequence")}},
      {{"rollout_rs", std::string("token")}, {"rollout_rs_threshold", 2.0}},
      {{"rollout_token_veto_threshold", 1e-4}}};
  for (const Options& options : corrections) {
    EXPECT_THAT(CheckLoss("reinforce", options).columns,
                ElementsAre("advantages", "rollout_log_prob", "old_log_prob"));
  }
}

// A threshold of a correction that is off is a mistake: the user believes that it is on.
TEST(LossSpecTest, AnOptionWithoutEffectIsRefused) {
  const LossCheck check = CheckLoss("ppo_clip", {{"rollout_is_threshold", 2.0},
                                                 {"rollout_is_batch_normalize", true},
                                                 {"rollout_rs_threshold", 2.0},
                                                 {"rollout_rs_threshold_lower", 0.5}});
  EXPECT_EQ(check.problems.size(), 4u);
  EXPECT_THAT(std::string(ToStatus(check.problems).message()),
              AllOf(HasSubstr("rollout_is_threshold: has no effect without rollout_is; give "
                              "rollout_is: token or sequence, or leave out rollout_is_threshold"),
                    HasSubstr("rollout_is_batch_normalize: has no effect without rollout_is"),
                    HasSubstr("rollout_rs_threshold: has no effect without rollout_rs; give "
                              "rollout_rs: token, sequence, geometric, token_k3, seq_mean_k3 or "
                              "seq_max_k3, or leave out"),
                    HasSubstr("rollout_rs_threshold_lower: has no effect without rollout_rs")));
  EXPECT_THAT(CheckLoss("ppo_clip", {{"rollout_is_batch_normalize", false}}).problems, IsEmpty());
  // Not a second time, where the loss has no such option or its value is wrong.
  EXPECT_EQ(CheckLoss("value", {{"rollout_is_threshold", 2.0}}).problems.size(), 1u);
  EXPECT_EQ(
      CheckLoss("ppo_clip", {{"rollout_is", std::string("tokens")}, {"rollout_is_threshold", 2.0}})
          .problems.size(),
      1u);
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
