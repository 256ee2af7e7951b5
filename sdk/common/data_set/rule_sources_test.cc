#include "sdk/common/data_set/rule_sources.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

v1::JobSpec WithRule(const std::string& source) {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  v1::RewardRule* rule = spec.mutable_reward()->add_rules();
  rule->set_type("numeric");
  rule->mutable_when()->add_source(source);
  return spec;
}

TEST(RuleSourcesTest, ASourceThatNoLineHasIsAMistake) {
  const auto problems = FindSourceProblems(WithRule("maths"), {"math", ""});
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].field, "spec.reward.rules[0].when.source");
  EXPECT_THAT(problems[0].what, HasSubstr("'maths'; the lines have none, 'math'"));
}

TEST(RuleSourcesTest, LinesThatNothingRewardsAreNamed) {
  v1::JobSpec spec = WithRule("math");
  const auto problems = FindSourceProblems(spec, {"math", "text"});
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].field, "spec.reward.rules");
  EXPECT_THAT(problems[0].what, HasSubstr("none judges lines of the source 'text'"));
  EXPECT_TRUE(FindSourceProblems(spec, {"math"}).empty());
  spec.mutable_reward()->add_rules()->set_type("regex");
  EXPECT_TRUE(FindSourceProblems(spec, {"math", "text"}).empty()) << "it judges all lines";
}

TEST(RuleSourcesTest, ACommandOrAModelRewardsAll) {
  v1::JobSpec spec = WithRule("math");
  spec.mutable_reward()->set_command("python3 reward.py");
  EXPECT_TRUE(FindSourceProblems(spec, {"math", "text"}).empty());
  spec = WithRule("math");
  spec.mutable_reward_model();
  EXPECT_TRUE(FindSourceProblems(spec, {"math", "text"}).empty());
  spec = WithRule("math");
  spec.mutable_reward()->set_method("compute_reward");  // the default
  EXPECT_EQ(FindSourceProblems(spec, {"math", "text"}).size(), 1u);
}

}  // namespace
}  // namespace baton
