#include "sdk/common/data_set/answer_use.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::JobSpec WithRules(const std::vector<std::string>& patterns_or_types) {
  v1::JobSpec spec;
  spec.set_kind(v1::JOB_KIND_RL);
  for (const std::string& rule : patterns_or_types) {
    const bool regex = rule[0] == '^';
    spec.mutable_reward()->add_rules()->set_type(regex ? "regex" : rule);
    if (regex) spec.mutable_reward()->mutable_rules()->rbegin()->set_pattern(rule);
  }
  return spec;
}

std::vector<std::string> Places(const v1::JobSpec& spec, const v1::Dataflow& dataflow = {}) {
  std::vector<std::string> out;
  for (const AnswerUse& use : AnswerUses(spec, dataflow)) out.push_back(use.place);
  return out;
}

TEST(AnswerUseTest, RulesThatCompareReadAnswers) {
  EXPECT_THAT(Places(WithRules({"exact_match"})),
              ElementsAre("spec.reward.rules[0] (exact_match)"));
  EXPECT_THAT(Places(WithRules({"^ok$", "numeric", "^{answer}"})),
              ElementsAre("spec.reward.rules[1] (numeric)", "spec.reward.rules[2] (regex)"));
  EXPECT_THAT(Places(WithRules({"^ok$"})), IsEmpty()) << "a fixed pattern compares with nothing";
}

TEST(AnswerUseTest, ALimitedRuleReadsTheAnswersOfItsSources) {
  v1::JobSpec spec = WithRules({"numeric"});
  spec.mutable_reward()->mutable_rules(0)->mutable_when()->add_source("math");
  const std::vector<AnswerUse> uses = AnswerUses(spec, {});
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_TRUE(uses[0].AppliesTo("math"));
  EXPECT_FALSE(uses[0].AppliesTo("text"));
  EXPECT_FALSE(uses[0].AppliesTo(""));
}

TEST(AnswerUseTest, JudgesReadWhatTheirTemplateNames) {
  v1::JobSpec spec = WithRules({});
  spec.mutable_judge()->set_template_("Is {response} good?");
  EXPECT_THAT(Places(spec), IsEmpty());
  v1::Dataflow dataflow;
  v1::ScoreNode* node = dataflow.add_score();
  node->set_role("judge");
  (*node->mutable_options()->mutable_fields())["template"].set_string_value("{answer}? {response}");
  EXPECT_THAT(Places(spec, dataflow), ElementsAre("spec.dataflow.score[0].options.template"));
  node->set_role("reward");
  EXPECT_THAT(Places(spec, dataflow), IsEmpty()) << "it is an option of something else";
  spec.mutable_judge()->set_template_("Is {response} the same as {answer}?");
  EXPECT_EQ(AnswerUses(spec, dataflow)[0].kind, AnswerUse::Kind::kQuotes);
}

TEST(AnswerUseTest, CodeOfTheUsersOwnIsHandedTheAnswer) {
  v1::JobSpec spec = WithRules({});
  spec.mutable_reward()->set_method("compute_reward");
  EXPECT_THAT(Places(spec), IsEmpty());
  spec.mutable_reward()->set_command("python3 reward.py");
  ASSERT_THAT(Places(spec), ElementsAre("spec.reward.command"));
  EXPECT_EQ(AnswerUses(spec, {})[0].kind, AnswerUse::Kind::kHandsOn);
}

TEST(AnswerUseTest, OtherKindsReadNoAnswers) {
  v1::JobSpec spec = WithRules({"exact_match"});
  spec.set_kind(v1::JOB_KIND_SFT);
  EXPECT_THAT(Places(spec), IsEmpty());
}

}  // namespace
}  // namespace baton
