#include "sdk/common/schema/loss_options.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(LossOptionsTest, EveryNameIsAKindOfItsOwn) {
  std::vector<LossSpec::Kind> kinds;
  for (const std::string& name : LossNames()) {
    const auto spec = MakeLossSpec(name, {});
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_THAT(kinds, Not(Contains(spec->kind)));
    kinds.push_back(spec->kind);
  }
  EXPECT_EQ(kinds.size(), 6u);
}

TEST(LossOptionsTest, SetsTheMembersOfItsOptions) {
  const auto spec = MakeLossSpec("gspo", {{"clip_ratio_low", 3e-4},
                                          {"use_kl_loss", true},
                                          {"kl_loss_type", std::string("k2")},
                                          {"rollout_is", std::string("sequence")}});
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->kind, LossSpec::kGspo);
  EXPECT_EQ(spec->clip_ratio_low, 3e-4);
  EXPECT_EQ(spec->clip_ratio_high, 0.2);
  EXPECT_TRUE(spec->use_kl_loss);
  EXPECT_EQ(spec->kl_loss_type, "k2");
  EXPECT_EQ(spec->rollout_is, "sequence");
}

TEST(LossOptionsTest, EverythingWrongIsListedAtOnce) {
  const auto spec = MakeLossSpec("reinforce", {{"clip_ratio_low", 0.2},
                                               {"temperature", 0.0},
                                               {"use_kl_loss", 1.0},
                                               {"loss_agg_mode", std::string("mean")},
                                               {"rollout_is", std::string("tokens")}});
  ASSERT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(spec.status().message()),
              AllOf(HasSubstr("clip_ratio_low: reinforce has no such option; it has entropy_coeff"),
                    HasSubstr("temperature: 0 is not above 0"),
                    HasSubstr("use_kl_loss: 1 is neither true nor false"),
                    HasSubstr("loss_agg_mode: 'mean' is not one of: token-mean"),
                    HasSubstr("rollout_is: 'tokens' is not one of: token, sequence")));
}

TEST(LossOptionsTest, AnUnknownLossListsTheKnownOnes) {
  const auto spec = MakeLossSpec("ppo", {});
  EXPECT_THAT(std::string(spec.status().message()),
              AllOf(HasSubstr("'ppo'"), HasSubstr("ppo_clip, gspo, cispo, reinforce")));
}

TEST(LossOptionsTest, AnOptionOfAnotherLossListsItsOwn) {
  EXPECT_THAT(std::string(MakeLossSpec("sft", {{"ptx_coef", 1.0}}).status().message()),
              HasSubstr("ptx_coef: sft has no such option"));
  EXPECT_THAT(std::string(MakeLossSpec("value", {{"ptx_coef", 1.0}}).status().message()),
              AllOf(HasSubstr("value has no such option; it has "), HasSubstr("cliprange_value"),
                    HasSubstr("loss_agg_mode"), HasSubstr("loss_scale_factor"),
                    Not(HasSubstr("entropy_coeff"))));
}

TEST(LossOptionsTest, ADualClipIsAboveOne) {
  EXPECT_TRUE(MakeLossSpec("ppo_clip", {{"clip_ratio_c", 0.0}}).ok());
  EXPECT_TRUE(MakeLossSpec("ppo_clip", {{"clip_ratio_c", 1.5}}).ok());
  EXPECT_THAT(std::string(MakeLossSpec("ppo_clip", {{"clip_ratio_c", 0.5}}).status().message()),
              HasSubstr("clip_ratio_c: 0.5 is not above 1"));
}

std::string ProblemsOf(const Options& options) {
  return std::string(MakeLossSpec("ppo_clip", options).status().message());
}

TEST(LossOptionsTest, BoundsOfARejectionFitEachOther) {
  const auto rs = [](const char* name, Options options) {
    options["rollout_rs"] = std::string(name);
    return options;
  };
  const Options threshold = {{"rollout_rs_threshold", 2.0}};
  for (const char* name :
       {"token", "sequence", "geometric", "token_k3", "seq_mean_k3", "seq_max_k3"}) {
    EXPECT_EQ(ProblemsOf(rs(name, threshold)), "") << name;
    EXPECT_THAT(ProblemsOf(rs(name, {})), AllOf(HasSubstr("rollout_rs_threshold: is missing"),
                                                HasSubstr("give for example")));
  }
  EXPECT_THAT(ProblemsOf(rs("token", {{"rollout_rs_threshold", 1.0}})),
              HasSubstr("rollout_rs_threshold: 1 is not above 1"));
  EXPECT_THAT(
      ProblemsOf(rs("token", {{"rollout_rs_threshold", 2.0}, {"rollout_rs_threshold_lower", 2.0}})),
      HasSubstr("rollout_rs_threshold_lower: 2 is not below rollout_rs_threshold, 2"));
  EXPECT_THAT(ProblemsOf(rs("token_k3",
                            {{"rollout_rs_threshold", 2.0}, {"rollout_rs_threshold_lower", 0.5}})),
              HasSubstr("rollout_rs_threshold_lower: has no effect with rollout_rs: token_k3"));
  EXPECT_EQ(ProblemsOf(rs("token", {{"rollout_rs_threshold", 0.0}})),
            "rollout_rs_threshold: 0 is not above 0")
      << "one mistake is named once";
  EXPECT_THAT(ProblemsOf({{"rollout_token_veto_threshold", 1.0}}),
              HasSubstr("rollout_token_veto_threshold: 1 is not below 1"));
  EXPECT_THAT(ProblemsOf({{"rollout_token_veto_threshold", 0.0}}), HasSubstr("0 is not above 0"));
  // Members too: the engine takes them without a reader of options.
  LossSpec loss;
  loss.rollout_rs = "token";
  EXPECT_THAT(std::string(Validate(loss).message()), HasSubstr("rollout_rs_threshold: is missing"));
}

// Tokens that the policy itself has sampled have the ratio 1. A divergence is then 0.
TEST(LossOptionsTest, BoundsOfRatiosKeepTheRatioOne) {
  const auto bounds = [](const char* name, double lower, double upper) {
    Options options = {{"rollout_rs", std::string(name)}, {"rollout_rs_threshold", upper}};
    if (lower > 0) options["rollout_rs_threshold_lower"] = lower;
    return ProblemsOf(options);
  };
  for (const char* name : {"token", "sequence", "geometric"}) {
    EXPECT_THAT(bounds(name, 0.5, 0.9), HasSubstr("rollout_rs_threshold: 0.9 is below 1"));
    EXPECT_THAT(bounds(name, 0, 0.9), HasSubstr("rollout_rs_threshold: 0.9 is below 1"));
    EXPECT_THAT(bounds(name, 1.1, 2), HasSubstr("rollout_rs_threshold_lower: 1.1 is above 1"));
    EXPECT_EQ(bounds(name, 0.5, 1), "");
    EXPECT_EQ(bounds(name, 1, 2), "");
  }
  EXPECT_EQ(bounds("seq_max_k3", 0, 0.9), "");
}

TEST(LossOptionsTest, SaysWhichCorrectionsAreOn) {
  LossSpec loss;
  EXPECT_TRUE(RolloutCorrections(loss).empty());
  loss.rollout_is = "token";
  loss.rollout_rs = "geometric";
  loss.rollout_rs_threshold = 4;
  loss.rollout_token_veto_threshold = 1e-4;
  EXPECT_THAT(RolloutCorrections(loss),
              ElementsAre("rollout_is", "rollout_rs", "rollout_token_veto_threshold"));
  EXPECT_TRUE(RejectsByRatio(loss));
  EXPECT_EQ(LowestKeptRatio(loss), 0.25);
  loss.rollout_rs_threshold_lower = 0.5;
  EXPECT_EQ(LowestKeptRatio(loss), 0.5);
  loss.rollout_rs = "seq_mean_k3";
  EXPECT_FALSE(RejectsByRatio(loss));
}

TEST(LossOptionsTest, MembersAreHeldToTheSameLimits) {
  EXPECT_TRUE(Validate(LossSpec()).ok());
  LossSpec bad;
  bad.clip_ratio_low = -0.1;
  bad.clip_ratio_high = std::nan("");
  bad.clip_ratio_c = 0.5;
  bad.loss_agg_mode = "mean";
  bad.loss_scale_factor = std::numeric_limits<double>::infinity();
  bad.kl_loss_type = "k4";
  bad.temperature = 0;
  bad.rollout_is = "tokens";
  bad.rollout_is_threshold = 0;
  bad.rollout_rs = "tokens";
  bad.rollout_rs_threshold = -1;
  bad.rollout_rs_threshold_lower = -1;
  bad.rollout_token_veto_threshold = -1;
  bad.positive_nll_coef = -1;
  bad.ptx_coef = std::nan("");
  bad.cliprange_value = -1;
  const absl::Status status = Validate(bad);
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* name : {"clip_ratio_low", "clip_ratio_high", "clip_ratio_c", "loss_agg_mode",
                           "loss_scale_factor", "kl_loss_type", "temperature", "rollout_is:",
                           "rollout_is_threshold", "rollout_rs:", "rollout_rs_threshold: -1",
                           "rollout_rs_threshold_lower: -1", "rollout_token_veto_threshold: -1",
                           "positive_nll_coef", "ptx_coef", "cliprange_value: -1"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  }
}

}  // namespace
}  // namespace baton
