#include "workers/reward/rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton::reward {
namespace {

using testing::HasSubstr;

RuleOptions Options(const std::string& type, const std::string& extract = "") {
  RuleOptions options;
  options.type = type;
  options.extract = extract;
  return options;
}

RewardResult Score(const RuleOptions& options, const std::string& response,
                   const std::string& answer) {
  auto rule = CreateRule(options);
  EXPECT_TRUE(rule.ok()) << rule.status();
  RewardInput input;
  input.response = response;
  input.answer = answer;
  auto result = (*rule)->Score(input);
  EXPECT_TRUE(result.ok()) << result.status();
  return *result;
}

double Accuracy(const RuleOptions& options, const std::string& response,
                const std::string& answer) {
  const RewardResult result = Score(options, response, answer);
  EXPECT_EQ(result.error, "");
  return result.scores.at("accuracy");
}

TEST(RuleTest, ExactMatchStripsAndFoldsAsAsked) {
  RuleOptions options = Options("exact_match");
  EXPECT_EQ(Accuracy(options, " Paris\n", "Paris"), 1);
  EXPECT_EQ(Accuracy(options, "paris", "Paris"), 0);
  options.ignore_case = true;
  EXPECT_EQ(Accuracy(options, "pARIS", "Paris"), 1);
  options.strip = false;
  EXPECT_EQ(Accuracy(options, "Paris ", "Paris"), 0);
}

TEST(RuleTest, ExtractTakesTheFirstGroupOfTheLastMatch) {
  const RuleOptions options = Options("exact_match", "#(\\d+)");
  EXPECT_EQ(Accuracy(options, "7+5+0=12 #12 4+8+1=13 #132", "132"), 1);
  EXPECT_EQ(Accuracy(options, "#132 #12", "132"), 0);
  const RewardResult found = Score(options, "#132", "132");
  EXPECT_EQ(found.scores.at("extracted"), 1);
  const RewardResult missing = Score(options, "132", "132");
  EXPECT_EQ(missing.scores.at("extracted"), 0);
  EXPECT_EQ(missing.scores.at("accuracy"), 0);
  EXPECT_EQ(missing.reward, 0);
  // Without a group, all of the match counts; an empty match is no endless loop.
  EXPECT_EQ(Accuracy(Options("exact_match", "\\d+"), "a 1 b 22", "22"), 1);
  EXPECT_EQ(Accuracy(Options("exact_match", "x*"), "\xC3\xA9\xC3\xA9", ""), 1);
}

TEST(RuleTest, NumericComparesNumbersNotText) {
  const RuleOptions options = Options("numeric");
  EXPECT_EQ(Accuracy(options, "It is 1,234.50 in all", "1234.5"), 1);
  EXPECT_EQ(Accuracy(options, "first 3, then 4.", "4"), 1);
  EXPECT_EQ(Accuracy(options, "first 4, then 3", "4"), 0);
  EXPECT_EQ(Accuracy(options, "x = -7", "-7.0"), 1);
  EXPECT_EQ(Accuracy(options, "x = 7", "-7"), 0);
  EXPECT_EQ(Accuracy(options, "1e3", "$1,000"), 1);
  EXPECT_EQ(Accuracy(options, ".5", "0.5"), 1);
  EXPECT_EQ(Accuracy(options, "no number", "0"), 0);
  EXPECT_EQ(Accuracy(Options("numeric", "#(.*)"), "1 # 132 ", "132"), 1);
  EXPECT_EQ(Accuracy(Options("numeric", "#(.*)"), "132", "132"), 0);
}

TEST(RuleTest, NumericToleranceIsAbsolute) {
  RuleOptions options = Options("numeric");
  EXPECT_EQ(Accuracy(options, "3.14", "3.1415"), 0);
  options.tolerance = 0.002;
  EXPECT_EQ(Accuracy(options, "3.14", "3.1415"), 1);
  EXPECT_EQ(Accuracy(options, "3.13", "3.1415"), 0);
}

TEST(RuleTest, WholeNumbersAreExactBeyondTheRangeOfDoubles) {
  const RuleOptions options = Options("numeric");
  EXPECT_EQ(Accuracy(options, "10000000000000000000001", "10000000000000000000001"), 1);
  EXPECT_EQ(Accuracy(options, "10000000000000000000001", "10000000000000000000002"), 0);
  EXPECT_EQ(Accuracy(options, "+10,000,000,000,000,001", "0010000000000000001"), 1);
  EXPECT_EQ(Accuracy(options, "-10000000000000001", "10000000000000001"), 0);
}

TEST(RuleTest, AToleranceHoldsBeyondTheRangeOfDoublesToo) {
  RuleOptions options = Options("numeric");
  options.tolerance = 10;
  EXPECT_EQ(Accuracy(options, "10000000000000004", "10000000000000000"), 1);
  EXPECT_EQ(Accuracy(options, "10000000000000010", "10000000000000000"), 1);
  EXPECT_EQ(Accuracy(options, "10000000000000012", "10000000000000000"), 0);
  EXPECT_EQ(Accuracy(options, "-10000000000000004", "10000000000000000"), 0);
}

// The cases of a public report: the sign decides, a range and a fraction are no whole numbers.
TEST(RuleTest, NumericReadsSignsRangesAndFractions) {
  const RuleOptions options = Options("numeric");
  EXPECT_EQ(Accuracy(options, "The change is \u22125.", "5"), 0);
  EXPECT_EQ(Accuracy(options, "The change is \u22125.", "-5"), 1);
  EXPECT_EQ(Accuracy(options, "A loss of -$3", "3"), 0);
  EXPECT_EQ(Accuracy(options, "A loss of -$3", "-3"), 1);
  EXPECT_EQ(Accuracy(options, "between 10-12", "12"), 0);
  EXPECT_EQ(Accuracy(options, "between 10-12", "-12"), 0);
  EXPECT_EQ(Accuracy(options, "between 10-12", "10\u201312"), 1);
  EXPECT_EQ(Accuracy(options, "The chance is 1/2.", "2"), 0);
  EXPECT_EQ(Accuracy(options, "The chance is 1/2.", "0.5"), 1);
  EXPECT_EQ(Accuracy(options, "\\boxed{\\frac{1}{2}}", "1/2"), 1);
}

TEST(RuleTest, ARangeEqualsOneWithBothItsEnds) {
  RuleOptions options = Options("numeric");
  EXPECT_EQ(Accuracy(options, "between 10-12", "10\u201313"), 0);
  EXPECT_EQ(Accuracy(options, "between 10-12", "9\u201312"), 0);
  options.tolerance = 1;
  EXPECT_EQ(Accuracy(options, "between 10-12", "9\u201313"), 1);
}

TEST(RuleTest, NumericSaysWhyATextPaysNothing) {
  const RuleOptions options = Options("numeric");
  const RewardResult comma = Score(options, "It is 3,14", "3.14");
  EXPECT_EQ(comma.reward, 0);
  EXPECT_EQ(comma.scores.at("ambiguous"), 1);
  EXPECT_THAT(comma.note, HasSubstr("ambiguous: '3,14' may have a decimal comma"));
  EXPECT_EQ(Score(options, "3", "3").scores.at("ambiguous"), 0);
  EXPECT_EQ(Score(options, "3", "3").note, "");
  EXPECT_THAT(Score(options, "none", "3").note, HasSubstr("no number"));
  EXPECT_THAT(Score(options, "10-12", "12").note, HasSubstr("has a range"));
}

TEST(RuleTest, APercentSignIsIgnoredUnlessItIsHundredths) {
  RuleOptions options = Options("numeric");
  // A line of GSM8K's test file: its solution ends with the sign, its answer has none.
  EXPECT_EQ(Accuracy(options, "This is 12/20 x 100% = 60% of the entire students.", "60"), 1);
  EXPECT_EQ(Score(options, "60%", "60").note, "");
  EXPECT_EQ(Accuracy(options, "\\boxed{50}", "50\\%"), 1);
  EXPECT_EQ(Accuracy(options, "50 percent", "50%"), 1);
  EXPECT_EQ(Accuracy(options, "50%", "0.5"), 0);
  EXPECT_THAT(Score(options, "0.5", "50%").note, HasSubstr("50% is 50 (option percent)"));
  options.percent_is_hundredths = true;
  EXPECT_EQ(Accuracy(options, "50%", "0.5"), 1);
  EXPECT_EQ(Score(options, "50%", "0.5").note, "");
  EXPECT_EQ(Accuracy(options, "50%", "50%"), 1);
  EXPECT_EQ(Accuracy(options, "50%", "50"), 0);
  EXPECT_THAT(Score(options, "50%", "50").note, HasSubstr("50% is 0.5 (option percent)"));
  for (const char* text : {"50 percent", "50 Percent.", "50 per cent", "50\\text{ percent}"}) {
    EXPECT_EQ(Accuracy(options, text, "0.5"), 1) << text;
  }
  EXPECT_EQ(Accuracy(options, "50 percentage points", "50"), 1) << "a difference of two percents";
}

TEST(RuleTest, ALimitedRuleSkipsOtherSources) {
  RuleOptions options = Options("exact_match");
  options.otherwise = -1;
  options.sources = {"math"};
  auto rule = CreateRule(options).value();
  RewardInput input;
  input.response = "a";
  input.answer = "b";
  input.source = "text";
  EXPECT_TRUE(rule->Score(input)->skipped);
  EXPECT_EQ(rule->Score(input)->reward, 0) << "not even otherwise";
  input.source = "math";
  EXPECT_FALSE(rule->Score(input)->skipped);
  EXPECT_EQ(rule->Score(input)->reward, -1);
}

// An empty response would be right where there is nothing to compare with.
TEST(RuleTest, ARuleThatComparesSkipsLinesWithoutAnAnswer) {
  RewardInput input;
  input.unanswered = true;
  RuleOptions regex = Options("regex");
  regex.pattern = "^{answer}";
  for (const RuleOptions& options : {Options("exact_match"), Options("numeric"), regex}) {
    const RewardResult result = CreateRule(options).value()->Score(input).value();
    EXPECT_TRUE(result.skipped);
    EXPECT_EQ(result.reward, 0);
    EXPECT_TRUE(result.scores.empty());
    EXPECT_THAT(result.note, HasSubstr("no answer"));
  }
  regex.pattern = "^$";
  EXPECT_FALSE(CreateRule(regex).value()->Score(input)->skipped) << "it compares with nothing";
}

TEST(RuleTest, AllRulesFoldAndStripAsUnicodeDoes) {
  RuleOptions exact = Options("exact_match");
  exact.ignore_case = true;
  RuleOptions regex = Options("regex");
  regex.ignore_case = true;
  regex.pattern = "^{answer}$";
  for (const RuleOptions& options : {exact, regex}) {
    EXPECT_EQ(Accuracy(options, "\u00a0ÉCOLE\u3000", "école"), 1) << options.type;
    EXPECT_EQ(Accuracy(options, "STRASSE", "straße"), 0) << options.type;
  }
}

TEST(RuleTest, AnswerThatIsNoNumberIsAnErrorOfTheResponse) {
  const RewardResult result = Score(Options("numeric"), "4", "four");
  EXPECT_THAT(result.error, HasSubstr("'four' is not a number"));
  EXPECT_THAT(Score(Options("numeric"), "4", "").error, HasSubstr("not a number"));
  EXPECT_THAT(Score(Options("numeric"), "4", "inf").error, HasSubstr("not a number"));
}

TEST(RuleTest, RegexMatchesAnywhereAndKnowsTheAnswer) {
  RuleOptions options = Options("regex");
  options.pattern = "^<think>.*</think>";
  EXPECT_EQ(Accuracy(options, "<think>a</think>b", ""), 1);
  EXPECT_EQ(Accuracy(options, "b<think>a</think>", ""), 0);
  options.pattern = "answer: {answer}$";
  EXPECT_EQ(Accuracy(options, "the answer: a.c", "a.c"), 1);
  EXPECT_EQ(Accuracy(options, "the answer: abc", "a.c"), 0);
  EXPECT_EQ(Accuracy(options, "the answer: \\E(", "\\E("), 1);
  options.ignore_case = true;
  EXPECT_EQ(Accuracy(options, "THE ANSWER: A.C", "a.c"), 1);
}

TEST(RuleTest, RewardAndOtherwiseAreGivenAsSet) {
  RuleOptions options = Options("exact_match");
  options.reward = 2;
  options.otherwise = -0.5;
  EXPECT_EQ(Score(options, "a", "a").reward, 2);
  EXPECT_EQ(Score(options, "a", "b").reward, -0.5);
}

TEST(RuleTest, RunawayPatternIsAnErrorOfTheResponse) {
  RuleOptions options = Options("regex");
  options.pattern = "^(a+)+$";
  const RewardResult result = Score(options, std::string(64, 'a') + "b", "");
  EXPECT_THAT(result.error, HasSubstr("gave up"));
  EXPECT_TRUE(result.scores.empty());
}

TEST(RuleTest, ResponsesThatAreNotUtf8AreJudged) {
  EXPECT_EQ(Accuracy(Options("numeric", "#(\\d+)"), "\xFF #5", "5"), 1);
}

TEST(RuleTest, BadOptionsAreNamed) {
  const auto message = [](const RuleOptions& options) {
    const auto status = CreateRule(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message(Options("equal")),
              HasSubstr("type: 'equal' is not one of exact_match, numeric, regex"));
  EXPECT_THAT(message(Options("numeric", "(")), HasSubstr("extract: regular expression '('"));
  EXPECT_THAT(message(Options("regex")), HasSubstr("pattern: type regex needs one"));
  RuleOptions options = Options("regex");
  options.pattern = "{answer}(";
  EXPECT_THAT(message(options), HasSubstr("pattern: regular expression"));
  options.type = "numeric";
  EXPECT_THAT(message(options), HasSubstr("pattern: only type regex"));
  options = Options("numeric");
  options.tolerance = -1;
  EXPECT_THAT(message(options), HasSubstr("tolerance: -1"));
}

}  // namespace
}  // namespace baton::reward
