#include "workers/engine/loss_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::engine {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(LossOptionsTest, EveryNameIsAKindOfItsOwn) {
  std::vector<LossSpec::Kind> kinds;
  for (const std::string& name : LossNames()) {
    const auto spec = MakeLossSpec(name, {});
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_THAT(kinds, Not(Contains(spec->kind)));
    kinds.push_back(spec->kind);
  }
  EXPECT_EQ(kinds.size(), 5u);
}

TEST(LossOptionsTest, SetsMembersOnTopOfABase) {
  LossSpec base;
  base.entropy_coeff = 0.5;
  base.clip_ratio_low = 0.1;
  const auto spec = MakeLossSpec("gspo",
                                 {{"clip_ratio_low", 3e-4},
                                  {"use_kl_loss", true},
                                  {"kl_loss_type", std::string("k2")},
                                  {"rollout_is", std::string("sequence")}},
                                 base);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->kind, LossSpec::kGspo);
  EXPECT_EQ(spec->clip_ratio_low, 3e-4);
  EXPECT_EQ(spec->entropy_coeff, 0.5);
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
                    HasSubstr("loss_agg_mode: 'mean' is not token-mean"),
                    HasSubstr("rollout_is: 'tokens' is none of token, sequence")));
}

TEST(LossOptionsTest, AnUnknownLossListsTheKnownOnes) {
  const auto spec = MakeLossSpec("ppo", {});
  EXPECT_THAT(std::string(spec.status().message()),
              AllOf(HasSubstr("'ppo'"), HasSubstr("ppo_clip, gspo, cispo, reinforce")));
  EXPECT_THAT(LossOptionNames("ppo"), IsEmpty());
  EXPECT_THAT(LossOptionNames("sft"), Not(Contains("ptx_coef")));
}

}  // namespace
}  // namespace baton::engine
