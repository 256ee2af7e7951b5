#include "controller/spec/settings/check_patterns.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/controller/spec.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

v1::JobSpec SpecWithRule(const std::string& type) {
  v1::JobSpec spec = ExampleSpec("grpo");
  spec.mutable_reward()->Clear();
  spec.mutable_reward()->add_rules()->set_type(type);
  return spec;
}

TEST(CheckPatternsTest, ABrokenPatternIsNamedWithItsPlace) {
  v1::JobSpec spec = SpecWithRule("numeric");
  spec.mutable_reward()->mutable_rules(0)->set_extract("(\\d+");
  v1::RewardRule* second = spec.mutable_reward()->add_rules();
  second->set_type("regex");
  second->set_pattern("[a-");
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.reward.rules[0].extract", HasSubstr("parenthes")),
                          Pair("spec.reward.rules[1].pattern", HasSubstr("character class"))));
  spec.mutable_reward()->mutable_rules(0)->set_extract("(\\d+)");
  second->set_pattern("^[a-z]+$");
  EXPECT_THAT(Problems(spec), IsEmpty());
}

TEST(CheckPatternsTest, AcceptsTheAnswerPlaceholderInAPattern) {
  v1::JobSpec spec = SpecWithRule("regex");
  spec.mutable_reward()->mutable_rules(0)->set_pattern("^\\s*{answer}\\s*$");
  EXPECT_THAT(Problems(spec), IsEmpty());
}

TEST(CheckPatternsTest, ARuleIsRefusedAsTheWorkerWould) {
  v1::JobSpec spec = SpecWithRule("exact_match");
  v1::RewardRule* rule = spec.mutable_reward()->mutable_rules(0);
  rule->set_pattern("x");
  rule->set_tolerance(-1);
  rule->set_reward(INFINITY);
  rule->set_weight(NAN);
  EXPECT_THAT(
      Problems(spec),
      UnorderedElementsAre(Pair("spec.reward.rules[0].pattern", HasSubstr("only type regex")),
                           Pair("spec.reward.rules[0].tolerance", HasSubstr("not at least 0")),
                           Pair("spec.reward.rules[0].reward", HasSubstr("not a finite number")),
                           Pair("spec.reward.rules[0].weight", HasSubstr("not a finite number"))));
}

TEST(CheckPatternsTest, AJudgesVerdictIsAPatternToo) {
  v1::JobSpec spec = ExampleSpec("fapo");
  spec.clear_dataflow();
  spec.mutable_judge()->set_verdict("(yes|no");
  EXPECT_THAT(Problems(spec), ElementsAre(Pair("spec.judge.verdict", HasSubstr("parenthes"))));
}

TEST(CheckPatternsTest, AKeyOfLinesHasAName) {
  v1::JobSpec spec = SpecWithRule("numeric");
  spec.mutable_data()->set_prompt_key("question");
  EXPECT_THAT(Problems(spec), IsEmpty());
  spec.mutable_data()->set_answer_key("");
  spec.mutable_data()->set_response_key(std::string(257, 'k'));
  EXPECT_THAT(Problems(spec),
              ElementsAre(Pair("spec.data.answer_key", HasSubstr("is empty")),
                          Pair("spec.data.response_key", HasSubstr("longer than 256"))));
}

}  // namespace
}  // namespace baton::controller
