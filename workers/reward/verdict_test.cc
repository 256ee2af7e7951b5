#include "workers/reward/verdict.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::reward {
namespace {

using ::testing::HasSubstr;

VerdictOptions YesOrNo() {
  VerdictOptions options;
  options.question = "Q: {prompt}\nA: {response}\nRight: {answer}\nIs A right?";
  options.pattern = "verdict: *(yes|no|perhaps)";
  options.worth = {{"Yes", 1}, {"no", -1}};
  options.neutral = 0.25;
  return options;
}

// Text that is not the template's own stands in brackets.
std::string Shown(const std::vector<Verdict::QuestionPart>& parts) {
  std::string out;
  for (const auto& part : parts) out += part.is_template ? part.text : "[" + part.text + "]";
  return out;
}

TEST(Verdict, AsksAboutTheResponse) {
  const auto verdict = Verdict::Create(YesOrNo()).value();
  // A response's text is never replaced again.
  EXPECT_EQ(Shown(verdict->Question("1+1", "{answer}{prompt}", "2")),
            "Q: [1+1]\nA: [{answer}{prompt}]\nRight: [2]\nIs A right?");
  EXPECT_EQ(Shown(verdict->Question("", "", "")), "Q: \nA: \nRight: \nIs A right?");
  VerdictOptions options = YesOrNo();
  options.question = "{response}{response}{prompt {answer}";
  EXPECT_EQ(Shown(Verdict::Create(options).value()->Question("p", "r", "a")), "[r][r]{prompt [a]");
  options.question = "{prompt}{prompt_suffix}{response}";
  EXPECT_EQ(Shown(Verdict::Create(options).value()->Question("p", "r", "a", "<think>")),
            "[p][<think>][r]");
}

TEST(Verdict, ReadsTheLastVerdictByTheTable) {
  const auto verdict = Verdict::Create(YesOrNo()).value();
  const auto read = [&](const char* text) { return verdict->Read(text).worth; };
  EXPECT_EQ(read("Let me think. Verdict: no? Well … VERDICT: YES."), 1);
  EXPECT_EQ(read("verdict: yes, verdict: no"), -1);
  EXPECT_TRUE(verdict->Read("verdict: yes").readable);
  for (const char* unreadable : {"", "yes", "verdict: maybe", "verdict: perhaps", "\xff\xfe"}) {
    EXPECT_EQ(read(unreadable), 0.25) << unreadable;
    EXPECT_FALSE(verdict->Read(unreadable).readable) << unreadable;
  }
}

TEST(Verdict, ReadsNumbers) {
  VerdictOptions options = YesOrNo();
  options.worth.clear();
  options.pattern = "score: ([^ ]*)";
  const auto verdict = Verdict::Create(options).value();
  EXPECT_EQ(verdict->Read("score: 3 then score: 4.5").worth, 4.5);
  EXPECT_EQ(verdict->Read("score: -1e1").worth, -10);
  for (const char* unreadable : {"score: high", "score: nan", "score: inf", "score: 1e999"}) {
    EXPECT_FALSE(verdict->Read(unreadable).readable) << unreadable;
  }
}

TEST(Verdict, APatternWithoutGroupsIsTheVerdict) {
  VerdictOptions options = YesOrNo();
  options.pattern = "yes|no";
  EXPECT_EQ(Verdict::Create(options).value()->Read("no, or yes").worth, 1);
}

TEST(Verdict, NamesWhatIsWrong) {
  const auto message = [](const VerdictOptions& options) {
    return std::string(Verdict::Create(options).status().message());
  };
  VerdictOptions options = YesOrNo();
  options.question.clear();
  EXPECT_THAT(message(options), HasSubstr("template"));
  options = YesOrNo();
  options.pattern = "(";
  EXPECT_THAT(message(options), HasSubstr("verdict"));
  options.pattern = "";
  EXPECT_THAT(message(options), HasSubstr("verdict: is empty"));
  options = YesOrNo();
  options.worth["no"] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(message(options), HasSubstr("verdicts.no"));
  options = YesOrNo();
  options.neutral = std::numeric_limits<double>::infinity();
  EXPECT_THAT(message(options), HasSubstr("neutral"));
}

}  // namespace
}  // namespace baton::reward
