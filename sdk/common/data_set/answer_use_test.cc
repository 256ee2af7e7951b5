#include "sdk/common/data_set/answer_use.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

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

TEST(AnswerUseTest, RulesThatCompareReadAnswers) {
  EXPECT_EQ(AnswerReader(WithRules({"exact_match"}), {}), "spec.reward.rules[0] (exact_match)");
  EXPECT_EQ(AnswerReader(WithRules({"^ok$", "numeric"}), {}), "spec.reward.rules[1] (numeric)");
  EXPECT_EQ(AnswerReader(WithRules({"^ok$", "^{answer}"}), {}), "spec.reward.rules[1] (regex)");
  EXPECT_EQ(AnswerReader(WithRules({"^ok$"}), {}), "") << "a fixed pattern compares with nothing";
}

TEST(AnswerUseTest, JudgesReadWhatTheirTemplateNames) {
  v1::JobSpec spec = WithRules({});
  spec.mutable_judge()->set_template_("Is {response} good?");
  EXPECT_EQ(AnswerReader(spec, {}), "");
  v1::Dataflow dataflow;
  v1::ScoreNode* node = dataflow.add_score();
  node->set_role("judge");
  (*node->mutable_options()->mutable_fields())["template"].set_string_value("{answer}? {response}");
  EXPECT_EQ(AnswerReader(spec, dataflow), "spec.dataflow.score[0].options.template");
  node->set_role("reward");
  EXPECT_EQ(AnswerReader(spec, dataflow), "") << "it is an option of something else";
  spec.mutable_judge()->set_template_("Is {response} the same as {answer}?");
  EXPECT_EQ(AnswerReader(spec, dataflow), "spec.judge.template");
}

TEST(AnswerUseTest, DoesNotAssumeThatACommandReadsAnswers) {
  v1::JobSpec spec = WithRules({});
  spec.mutable_reward()->set_command("python3 reward.py");
  EXPECT_EQ(AnswerReader(spec, {}), "");
}

TEST(AnswerUseTest, OtherKindsReadNoAnswers) {
  v1::JobSpec spec = WithRules({"exact_match"});
  spec.set_kind(v1::JOB_KIND_SFT);
  EXPECT_EQ(AnswerReader(spec, {}), "");
}

}  // namespace
}  // namespace baton
