#include "controller/algorithms/estimator_spec.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::algorithms {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<std::string> Faulty(const EstimatorCheck& check) {
  std::vector<std::string> names;
  for (const OptionProblem& p : check.problems) names.push_back(p.option);
  return names;
}

TEST(EstimatorSpecTest, EveryNameStandsWithoutOptions) {
  EXPECT_EQ(EstimatorNames().size(), 8u);
  for (const std::string& name : EstimatorNames()) {
    EXPECT_THAT(CheckEstimator(name, {}).problems, IsEmpty()) << name;
    EXPECT_TRUE(EstimatorOf(name).has_value());
  }
  EXPECT_FALSE(EstimatorOf("GRPO").has_value());
}

TEST(EstimatorSpecTest, OptionsSetTheirMembers) {
  const EstimatorCheck check = CheckEstimator(
      "gae", {{"gamma", 0.5}, {"lam", 0.25}, {"whiten_advantages", false}, {"kl_penalty", "k3"}});
  EXPECT_THAT(check.problems, IsEmpty());
  EXPECT_EQ(check.spec.gamma, 0.5);
  EXPECT_EQ(check.spec.lam, 0.25);
  EXPECT_EQ(check.spec.critic_lam, 0.25) << "follows lam until it is set";
  EXPECT_FALSE(check.spec.whiten_advantages);
  EXPECT_EQ(check.spec.kl_penalty, "k3");
  EXPECT_EQ(CheckEstimator("gae", {{"lam", 0.25}, {"critic_lam", 1.0}}).spec.critic_lam, 1);
}

TEST(EstimatorSpecTest, DefaultsDependOnTheEstimator) {
  for (const char* name : {"gae", "reinforce_plus_plus", "reinforce_plus_plus_baseline"}) {
    EXPECT_TRUE(CheckEstimator(name, {}).spec.whiten_advantages) << name;
  }
  for (const char* name : {"grpo", "dr_grpo", "rloo", "remax"}) {
    EXPECT_FALSE(CheckEstimator(name, {}).spec.whiten_advantages) << name;
  }
  EXPECT_TRUE(CheckEstimator("grpo", {}).spec.norm_adv_by_std_in_grpo);
}

TEST(EstimatorSpecTest, AllMistakesAreListedAtOnce) {
  const EstimatorCheck check = CheckEstimator("gae", {{"gamma", 1.5},
                                                      {"lam", "much"},
                                                      {"lambda", 0.9},
                                                      {"kl_penalty", "k4"},
                                                      {"kl_ctrl", true},
                                                      {"use_cost", 1.0},
                                                      {"horizon", 0.0},
                                                      {"target_kl", std::nan("")},
                                                      {"filter_metric", ""},
                                                      {"cost_estimator", "gea"}});
  EXPECT_THAT(Faulty(check),
              UnorderedElementsAre("gamma", "lam", "lambda", "kl_penalty", "kl_ctrl", "use_cost",
                                   "horizon", "target_kl", "filter_metric", "cost_estimator"));
  const std::string text(ToStatus(check.problems).message());
  EXPECT_THAT(text, AllOf(HasSubstr("gamma: 1.5 is not in [0, 1]"),
                          HasSubstr("lam: 'much' is not a number"),
                          HasSubstr("lambda: gae has no such option; it has adaptive_lam_alpha, "),
                          HasSubstr("kl_penalty: 'k4' is not one of: k1, k2, k3"),
                          HasSubstr("use_cost: 1 is neither true nor false"),
                          HasSubstr("horizon: 0 is not above 0"),
                          HasSubstr("target_kl: nan is not a finite number"),
                          HasSubstr("'gea' is no estimator; there are gae, grpo")));
  EXPECT_EQ(MakeEstimatorSpec("gae", {{"gamma", 2.0}}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(EstimatorSpecTest, AnUnknownEstimatorListsTheKnownOnes) {
  const EstimatorCheck check = CheckEstimator("ppo", {{"gamma", 7.0}});
  ASSERT_EQ(check.problems.size(), 1u);
  EXPECT_EQ(check.problems[0].option, "");
  EXPECT_THAT(check.problems[0].message,
              AllOf(HasSubstr("'ppo'"), HasSubstr("reinforce_plus_plus_baseline")));
}

TEST(EstimatorSpecTest, AnOptionOfAnotherEstimatorIsAMistake) {
  EXPECT_THAT(Faulty(CheckEstimator("grpo", {{"lam", 1.0}})), ElementsAre("lam"));
  EXPECT_THAT(Faulty(CheckEstimator("dr_grpo", {{"norm_adv_by_std_in_grpo", true}})),
              ElementsAre("norm_adv_by_std_in_grpo"));
  const EstimatorCheck gae = CheckEstimator("gae", {{"epsilon", 1.0}});
  ASSERT_THAT(Faulty(gae), ElementsAre("epsilon"));
  EXPECT_THAT(gae.problems[0].message, HasSubstr("lam"));
}

TEST(EstimatorSpecTest, OptionsThatContradictEachOther) {
  EXPECT_THAT(
      Faulty(CheckEstimator("grpo", {{"overlong_buffer_len", 8.0}, {"max_response_length", 4.0}})),
      ElementsAre("overlong_buffer_len"));
  EXPECT_THAT(Faulty(CheckEstimator("gae", {{"use_cost", true}, {"lambda_init", 9.0}})),
              ElementsAre("lambda_init"));
  EXPECT_THAT(Faulty(CheckEstimator(
                  "rloo", {{"use_kl_in_reward", true}, {"kl_ctrl", "adaptive"}, {"kl_coef", 0.0}})),
              ElementsAre("kl_coef"));
  EXPECT_THAT(Faulty(CheckEstimator("remax", {{"use_cost", true}})), ElementsAre("cost_estimator"));
  EXPECT_THAT(Faulty(CheckEstimator("grpo", {{"use_cost", true}, {"cost_estimator", "given"}})),
              ElementsAre("cost_estimator"));
  // Options that shape rewards would have no effect.
  EXPECT_THAT(Faulty(CheckEstimator("given", {{"use_kl_in_reward", true}})),
              ElementsAre("use_kl_in_reward"));
}

TEST(EstimatorSpecTest, SaysWhatItNeeds) {
  EXPECT_THAT(CheckEstimator("grpo", {}).needs.columns, ElementsAre("reward"));
  const EstimatorNeeds gae = CheckEstimator("gae", {{"use_kl_in_reward", true}}).needs;
  EXPECT_THAT(gae.columns,
              UnorderedElementsAre("reward", "values", "rollout_log_prob", "ref_log_prob"));
  EXPECT_TRUE(gae.per_token && gae.returns && !gae.groups && !gae.cost_returns);
  EXPECT_THAT(CheckEstimator("remax", {}).needs.columns,
              UnorderedElementsAre("reward", "reward_baseline"));
  const EstimatorNeeds given = CheckEstimator("given", {}).needs;
  EXPECT_THAT(given.columns, UnorderedElementsAre("reward", "advantage"));
  EXPECT_FALSE(given.per_token || given.returns || given.groups);
  const EstimatorNeeds safe = CheckEstimator("gae", {{"use_cost", true}}).needs;
  EXPECT_THAT(safe.columns, UnorderedElementsAre("reward", "cost", "values", "cost_values"));
  EXPECT_TRUE(safe.cost_returns);
  const EstimatorNeeds mixed =
      CheckEstimator("grpo", {{"use_cost", true}, {"cost_estimator", "reinforce_plus_plus"}}).needs;
  EXPECT_THAT(mixed.columns, UnorderedElementsAre("reward", "cost"));
  EXPECT_TRUE(mixed.per_token && mixed.groups && !mixed.returns && !mixed.cost_returns);
  EXPECT_THAT(CheckEstimator("grpo", {{"filter_groups", true},
                                      {"filter_metric", "accuracy"},
                                      {"flawed_positive_penalty", 1.0}})
                  .needs.columns,
              UnorderedElementsAre("reward", "accuracy", "flawed"));
}

}  // namespace
}  // namespace baton::algorithms
