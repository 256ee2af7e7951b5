// What ReadDataSet says of lines as a whole: answers that are missing, keys that are not used.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/data_set/data_set.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LineCountsTest : public ::testing::Test {
 protected:
  DataSet Read(const std::string& lines) const {
    folder_.Write("a.jsonl", lines);
    return ReadDataSet({folder_.path("a.jsonl")}, options_);
  }
  void Use(AnswerUse::Kind kind, std::vector<std::string> sources = {}) {
    options_.answer_uses.push_back(
        {kind, "spec.reward.rules[0] (exact_match)", std::move(sources)});
  }

  TestFolder folder_;
  DataSetOptions options_;
};

TEST_F(LineCountsTest, ARuleWithoutASingleAnswerIsRefusedWithTheLikelyKey) {
  Use(AnswerUse::Kind::kCompares);
  const std::string lines =
      "{\"prompt\": \"0+0=\", \"solution\": \"0\"}\n{\"prompt\": \"0+1=\", \"solution\": \"1\"}\n";
  const DataSet data = Read(lines);
  ASSERT_THAT(data.problems, SizeIs(1));
  EXPECT_EQ(data.problems[0],
            "none of 2 lines has `answer`, and spec.reward.rules[0] (exact_match) compares "
            "responses with it; the first has `prompt`, `solution`: if `solution` is the answer, "
            "set spec.data.answer_key: solution");
  options_.answer_key = "solution";
  EXPECT_THAT(Read(lines).problems, IsEmpty());
  options_.answer_key = "gold";
  EXPECT_THAT(Read(lines).problems[0], HasSubstr("has `gold` (spec.data.answer_key)"));
}

TEST_F(LineCountsTest, TheLikelyKeyMayStandInAnObject) {
  Use(AnswerUse::Kind::kCompares);
  EXPECT_THAT(
      Read("{\"prompt\": \"q\", \"reward_model\": {\"style\": \"rule\", \"ground_truth\": 3}}\n")
          .problems,
      ElementsAre(HasSubstr("set spec.data.answer_key: reward_model.ground_truth")));
  EXPECT_THAT(Read("{\"prompt\": \"q\", \"x\": 3}\n").problems,
              ElementsAre(HasSubstr("say which is the answer with spec.data.answer_key")));
}

TEST_F(LineCountsTest, LinesTellWhatOldWorkersWouldLeaveOut) {
  const std::string plain = R"({"prompt": "a", "completion": "b", "chosen": "c", "rejected": "d"})";
  const std::string given = R"({"prompt": "a", "response": "b", "chat_template_kwargs": {"x": 1}})";
  const std::string thought =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b",)"
      R"( "reasoning_content": "c"}, {"role": "user", "content": "d"}]})";
  const std::string calls =
      R"({"prompt": "a", "response": [{"role": "assistant", "tool_calls": [{"name": "f"}]}]})";
  for (const v1::JobKind kind : {v1::JOB_KIND_RL, v1::JOB_KIND_SFT, v1::JOB_KIND_REWARD_MODEL}) {
    options_ = OptionsOf(kind);
    EXPECT_FALSE(Read(plain + "\n").chat_settings);
  }
  options_ = OptionsOf(v1::JOB_KIND_RL);
  EXPECT_TRUE(Read(plain + "\n" + given + "\n").chat_settings);
  EXPECT_TRUE(Read(thought + "\n").chat_settings);
  EXPECT_FALSE(Read(calls + "\n").chat_settings) << "kind rl does not use responses";
  options_ = OptionsOf(v1::JOB_KIND_SFT);
  EXPECT_TRUE(Read(given + "\n").chat_settings);
  EXPECT_TRUE(Read(calls + "\n").chat_settings);
}

TEST_F(LineCountsTest, LinesThatLackAnAnswerAmongOthersAreCountedAndNamed) {
  Use(AnswerUse::Kind::kCompares);
  const DataSet data = Read(
      "{\"prompt\": \"1+1=\", \"answer\": \"\"}\n\n"
      "{\"prompt\": \"1+2=\", \"solution\": 3}\n"
      "{\"prompt\": \"1+3=\"}\n");
  EXPECT_THAT(data.problems, IsEmpty()) << "an empty answer is an answer";
  EXPECT_THAT(data.examples, SizeIs(3));
  EXPECT_EQ(data.unanswered.lines, 2u);
  EXPECT_EQ(data.unanswered.keys, "`prompt`, `solution`");
  EXPECT_EQ(data.unanswered.place, folder_.path("a.jsonl") + ":3");
  EXPECT_EQ(data.unanswered.use, "spec.reward.rules[0] (exact_match)");
}

TEST_F(LineCountsTest, LinesOfOtherSourcesNeedNoAnswer) {
  Use(AnswerUse::Kind::kCompares, {"math"});
  const std::string text = "{\"prompt\": \"Hi\", \"source\": \"text\"}\n";
  EXPECT_EQ(
      Read(text + "{\"prompt\": \"1\", \"source\": \"math\", \"answer\": 1}\n").unanswered.lines,
      0u);
  EXPECT_THAT(Read(text + "{\"prompt\": \"1\", \"source\": \"math\"}\n").problems,
              ElementsAre(HasSubstr("none of 1 line of source 'math' has `answer`")));
}

// rule_sources.h refuses such a rule for its source.
TEST_F(LineCountsTest, ARuleOfASourceThatNoLineHasLacksNoAnswers) {
  Use(AnswerUse::Kind::kCompares, {"math"});
  const DataSet data = Read("{\"prompt\": \"Hi\", \"source\": \"text\"}\n");
  EXPECT_THAT(data.problems, IsEmpty());
  EXPECT_EQ(data.unanswered.lines, 0u);
}

TEST_F(LineCountsTest, AJudgeThatQuotesTheAnswerNeedsItInEachLine) {
  Use(AnswerUse::Kind::kQuotes);
  const DataSet data = Read("{\"prompt\": \"a\", \"answer\": 1}\n{\"prompt\": \"b\"}\n");
  EXPECT_THAT(data.problems, ElementsAre(HasSubstr("a.jsonl:2: `answer` is missing")));
  EXPECT_THAT(data.examples, SizeIs(1));
}

TEST_F(LineCountsTest, CodeOfTheUsersOwnMayGoWithoutAnswers) {
  Use(AnswerUse::Kind::kHandsOn);
  const DataSet data = Read("{\"prompt\": \"a\"}\n");
  EXPECT_THAT(data.problems, IsEmpty());
  EXPECT_EQ(data.unanswered.lines, 1u);
}

TEST_F(LineCountsTest, AKeyThatTheSpecNamesStandsInALineAtLeast) {
  options_.source_key = "data_source";
  options_.extra_key = "extra_info.index";
  EXPECT_THAT(
      Read("{\"prompt\": \"a\"}\n{\"prompt\": \"b\"}\n").problems,
      ElementsAre("none of 2 lines has `data_source` (spec.data.source_key); the first has "
                  "`prompt`",
                  HasSubstr("none of 2 lines has `extra_info.index` (spec.data.extra_key)")));
  const DataSet data = Read(
      "{\"prompt\": \"a\"}\n"
      "{\"prompt\": \"b\", \"data_source\": \"gsm8k\", \"extra_info\": {\"index\": 7}}\n");
  EXPECT_THAT(data.problems, IsEmpty());
  EXPECT_EQ(data.examples[1].source, "gsm8k");
  EXPECT_EQ(data.examples[1].extra_json, "7");
}

TEST_F(LineCountsTest, UnusedKeysAreListedOnce) {
  options_.answer_key = "reward_model.ground_truth";
  const std::string verl =
      "{\"prompt\": \"a\", \"ability\": \"math\", \"nothing\": null, \"source\": \"s\", "
      "\"reward_model\": "
      "{\"style\": \"rule\", \"ground_truth\": \"3\"}, \"extra_info\": {\"index\": 1}}\n";
  EXPECT_THAT(Read(verl + verl).unused_keys,
              ElementsAre("ability", "reward_model.style", "extra_info"));
  options_ = {};
  EXPECT_THAT(Read("{\"prompt\": \"a\", \"messages\": [{\"role\": \"user\", \"content\": \"b\"}], "
                   "\"response\": \"c\", \"tools\": [], \"answer\": 1, \"extra\": 2}\n")
                  .unused_keys,
              ElementsAre("messages", "response"));
}

TEST_F(LineCountsTest, WhatIsUsedDependsOnTheKind) {
  const std::string line =
      "{\"prompt\": \"a\", \"response\": \"b\", \"answer\": \"c\", \"label\": true, \"extra\": "
      "1}\n";
  options_.needs_response = true;
  EXPECT_THAT(Read(line).unused_keys, ElementsAre("answer", "extra"));
  options_ = {};
  EXPECT_THAT(Read(line).unused_keys, ElementsAre("response", "label"));
  options_.needs_pair = true;
  EXPECT_THAT(Read("{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\", \"score\": 1}\n")
                  .unused_keys,
              ElementsAre("score"));
}

TEST_F(LineCountsTest, KeysOfTheFirstThousandLinesOfAFileAreLookedAt) {
  std::string lines;
  for (int i = 1; i <= 1001; ++i) {
    absl::StrAppend(&lines, "{\"prompt\": \"a\"",
                    i == 1000   ? ", \"seen\": 1"
                    : i == 1001 ? ", \"unseen\": 1"
                                : "",
                    "}\n");
  }
  EXPECT_THAT(Read(lines).unused_keys, ElementsAre("seen"));
}

}  // namespace
}  // namespace baton
