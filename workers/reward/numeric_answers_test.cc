#include "workers/reward/numeric_answers.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::reward {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

// The `answer` of GSM8K as it is published is the whole solution.
TEST(NumericAnswersTest, AnswersThatAreTextsAreRefusedWithTheFirst) {
  NumericAnswers answers;
  answers.AddRule("spec.reward.rules[1]", {});
  answers.Add("1,234", "", "a.jsonl:1");
  answers.Add("It takes 2/2=1 bolt of white fiber\n#### 3", "", "a.jsonl:2");
  answers.Add("none", "", "a.jsonl:3");
  EXPECT_THAT(
      answers.Problems(0.1),
      ElementsAre(Pair("spec.reward.rules[1]",
                       AllOf(HasSubstr("2 of 3 answers are not one number"),
                             HasSubstr("the first is a.jsonl:2: 'It takes 2/2=1 bolt of")))));
}

TEST(NumericAnswersTest, AsManyAsMayFailAreTaken) {
  NumericAnswers answers;
  EXPECT_THAT(answers.Problems(0), IsEmpty());
  answers.AddRule("spec.reward.rules[0]", {"math"});
  answers.Add("Paris", "capitals", "a.jsonl:1");
  for (int i = 0; i < 9; ++i) answers.Add("10-12", "math", "a.jsonl:2");
  answers.Add("(3, 4)", "math", "a.jsonl:3");
  EXPECT_THAT(answers.Problems(0.1), IsEmpty());
  answers.Add("(3, 5)", "math", "a.jsonl:4");
  EXPECT_THAT(answers.Problems(0.1),
              ElementsAre(Pair("spec.reward.rules[0]", HasSubstr("2 of 11"))));
}

}  // namespace
}  // namespace baton::reward
