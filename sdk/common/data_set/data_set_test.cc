#include "sdk/common/data_set/data_set.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class DataSetTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) const {
    folder_.Write(name, text);
    return folder_.path(name);
  }
  static std::string ProblemOf(const std::string& line, bool needs_response = false) {
    auto example = ParseExample(line, {needs_response});
    return example.ok() ? "none" : std::string(example.status().message());
  }

  const TestFolder folder_;
};

TEST_F(DataSetTest, ReadsEveryField) {
  auto example =
      ParseExample(R"({"prompt": "1+1=", "answer": "2", "response": "two", "source": "easy",)"
                   R"( "extra": {"b": [1, 2], "a": null}})",
                   {true});
  ASSERT_TRUE(example.ok()) << example.status();
  EXPECT_EQ(example->prompt, "1+1=");
  EXPECT_EQ(example->answer, "2");
  EXPECT_EQ(example->response, "two");
  EXPECT_EQ(example->source, "easy");
  EXPECT_EQ(example->extra_json, R"({"a":null,"b":[1,2]})");
  EXPECT_THAT(example->messages, IsEmpty());
  EXPECT_EQ(example->PromptText(), "1+1=");
}

TEST_F(DataSetTest, ReadsConversations) {
  auto example = ParseExample(
      R"({"prompt": [{"role": "system", "content": "Add."}, {"role": "user", "content": "1+1"}]})",
      {});
  ASSERT_TRUE(example.ok()) << example.status();
  EXPECT_EQ(example->prompt, "");
  ASSERT_THAT(example->messages, SizeIs(2));
  EXPECT_EQ(example->messages[0].role(), "system");
  EXPECT_EQ(example->messages[1].content(), "1+1");
  EXPECT_EQ(example->PromptText(), "system: Add.\nuser: 1+1");
}

TEST_F(DataSetTest, OneMessageOfAUserIsItsText) {
  EXPECT_EQ(ParseExample(R"({"prompt": [{"role": "user", "content": "1+1"}]})", {})->PromptText(),
            "1+1");
  EXPECT_EQ(ParseExample(R"({"prompt": [{"role": "system", "content": "x"}]})", {})->PromptText(),
            "system: x");
}

TEST_F(DataSetTest, APromptTravelsAsItWasGiven) {
  const Example text = ParseExample(R"({"prompt": "1+1="})", {}).value();
  const Example turns =
      ParseExample(
          R"({"prompt": [{"role": "system", "content": "Add."}, {"role": "user", "content": "1+1"}]})",
          {})
          .value();
  v1::Generate generate;
  v1::Trajectory trajectory;
  for (int times = 0; times < 2; ++times) {  // what was there before is replaced
    SetPrompt(turns, &generate);
    SetPrompt(turns, &trajectory);
  }
  EXPECT_EQ(generate.prompt(), "");
  EXPECT_EQ(trajectory.prompt_text(), "system: Add.\nuser: 1+1");
  ASSERT_EQ(trajectory.messages_size(), 2);
  ASSERT_EQ(generate.messages_size(), 2);
  for (int i = 0; i < 2; ++i) {
    for (const v1::ChatMessage& message : {generate.messages(i), trajectory.messages(i)}) {
      EXPECT_EQ(message.role(), i == 0 ? "system" : "user");
      EXPECT_EQ(message.content(), i == 0 ? "Add." : "1+1");
    }
  }
  SetPrompt(text, &generate);
  SetPrompt(text, &trajectory);
  EXPECT_EQ(generate.prompt(), "1+1=");
  EXPECT_EQ(trajectory.prompt_text(), "1+1=");
  EXPECT_EQ(generate.messages_size() + trajectory.messages_size(), 0);
}

TEST_F(DataSetTest, AnAnswerMayBeANumber) {
  EXPECT_EQ(ParseExample(R"({"prompt": "p", "answer": 42})", {})->answer, "42");
  EXPECT_EQ(ParseExample(R"({"prompt": "p", "answer": 0.5})", {})->answer, "0.5");
  EXPECT_EQ(ParseExample(R"({"prompt": "p", "answer": true})", {})->answer, "true");
  EXPECT_EQ(ParseExample(R"({"prompt": "p", "answer": null})", {})->answer, "");
}

TEST_F(DataSetTest, SaysWhatIsWrongWithALine) {
  EXPECT_THAT(ProblemOf("{\"prompt\": "), HasSubstr("not valid JSON"));
  EXPECT_THAT(ProblemOf("{\"prompt\": \"\xff\"}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(ProblemOf("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(ProblemOf("{}"), HasSubstr("`prompt` is missing"));
  EXPECT_THAT(ProblemOf(R"({"prompt": ""})"), HasSubstr("`prompt` is empty"));
  EXPECT_THAT(ProblemOf(R"({"prompt": 3})"), HasSubstr("`prompt` is number, not a string"));
  EXPECT_THAT(ProblemOf(R"({"prompt": []})"), HasSubstr("empty list"));
  EXPECT_THAT(ProblemOf(R"({"prompt": [{"role": "user"}]})"), HasSubstr("`prompt[0]`"));
  EXPECT_THAT(ProblemOf(R"({"prompt": [{"role": "robot", "content": "x"}]})"),
              HasSubstr("'robot', not one of: system, user, assistant"));
  EXPECT_THAT(ProblemOf(R"({"prompt": "p", "answer": []})"), HasSubstr("`answer` is array"));
  EXPECT_THAT(ProblemOf(R"({"prompt": "p", "source": 1})"), HasSubstr("`source` is number"));
  EXPECT_THAT(ProblemOf(R"({"prompt": "p"})", true), HasSubstr("`response` is missing"));
}

TEST_F(DataSetTest, RefusesDeepNesting) {
  const auto nested = [](size_t depth) {
    return absl::StrCat(R"({"prompt": "[[[", "extra": )", std::string(depth, '['),
                        std::string(depth, ']'), "}");
  };
  EXPECT_EQ(ProblemOf(nested(50)), "none");
  EXPECT_THAT(ProblemOf(nested(1'000'000)), HasSubstr("nested more than 100 deep"));
  // Brackets in strings are no nesting.
  EXPECT_EQ(ProblemOf(absl::StrCat(R"({"prompt": "\")", std::string(1000, '['), "\"}")), "none");
}

TEST_F(DataSetTest, ReadsFilesInOrderAndNamesBrokenLines) {
  const std::string first = Write("a.jsonl",
                                  "{\"prompt\": \"a\"}\r\n\n  \n{\"prompt\": 1}\n{\"prompt\": "
                                  "\"b\"}");
  const std::string second = Write("b.jsonl", "{\"prompt\": \"c\"}\nnonsense\n");
  const DataSet data = ReadDataSet({first, second}, {});
  ASSERT_THAT(data.examples, SizeIs(3));
  EXPECT_EQ(data.examples[0].prompt, "a");
  EXPECT_EQ(data.examples[1].prompt, "b");
  EXPECT_EQ(data.examples[2].prompt, "c");
  EXPECT_THAT(data.file_sizes, ElementsAre(2, 1));
  EXPECT_THAT(data.problems,
              ElementsAre(absl::StrCat(first, ":4: `prompt` is number, not a string"),
                          HasSubstr(absl::StrCat(second, ":2: column 1: not valid JSON: '"))));
}

// A problem that every line has is told once, with what the file may be.
TEST_F(DataSetTest, AFileThatIsNoJsonLinesIsOneProblem) {
  const auto problem = [this](const std::string& text) {
    const std::string path = Write("data.jsonl", text);
    const std::vector<std::string> problems = ReadDataSet({path}, {}).problems;
    EXPECT_THAT(problems, SizeIs(1)) << text;
    EXPECT_THAT(problems, ElementsAre(HasSubstr(path + ": has no JSON lines"))) << text;
    return problems.empty() ? "" : problems[0].substr(path.size());
  };
  EXPECT_EQ(
      problem("[\n{\"prompt\": \"a\"},\n{\"prompt\": \"b\"}\n]\n"),
      ": has no JSON lines, which are one JSON object a line; it is a JSON array; write one "
      "element a line (jq -c '.[]' FILE); line 1, column 2: not valid JSON: the line ends too "
      "early; a value or a closing bracket is missing");
  EXPECT_THAT(problem("[{\"prompt\": \"a\"}]"), HasSubstr("it is a JSON array"));
  EXPECT_THAT(problem("{\n  \"prompt\": \"a\"\n}\n"), HasSubstr("it is JSON over several lines"));
  EXPECT_THAT(problem("prompt,answer\n1+1=,2\n1+2=,3\n"), HasSubstr("it may be a table"));
  EXPECT_THAT(problem(std::string("PAR1\x15\x04\n\0\nx", 11)), HasSubstr("parquet"));
  EXPECT_THAT(problem("\x1f\x8b\x08\n\nabc\n"), HasSubstr("unpack it"));
  EXPECT_THAT(problem("{'prompt': 'a'}\n\n{'prompt': 'b'}\n"),
              HasSubstr("object a line; line 1, column 2: not valid JSON: a single quote"));
}

TEST_F(DataSetTest, ABrokenLineAmongOthersIsTheLinesOwnProblem) {
  const std::string path =
      Write("data.jsonl", "{\"prompt\": \n\nnonsense\n{\"prompt\": \"a\"}\n{}\n");
  EXPECT_THAT(
      ReadDataSet({path}, {}).problems,
      ElementsAre(HasSubstr(path + ":1: column 12: not valid JSON: the line ends too early"),
                  HasSubstr(path + ":3: column 1: not valid JSON: 'nonsense'"),
                  path + ":5: `prompt` is missing"));
  const std::string one = Write("one.jsonl", "{\"prompt\": \"a\",}\n");
  EXPECT_THAT(
      ReadDataSet({one}, {}).problems,
      ElementsAre(one + ":1: column 16: not valid JSON: a comma before the closing bracket; "
                        "remove it"));
}

TEST_F(DataSetTest, NamesFilesWithoutExamples) {
  const std::string empty = Write("empty.jsonl", "\n\n");
  const std::string missing = folder_.path("missing.jsonl");
  EXPECT_THAT(ReadDataSet({empty, missing, folder_.path()}, {}).problems,
              ElementsAre(absl::StrCat(empty, ": holds no example; give one JSON object a line"),
                          HasSubstr("missing.jsonl: cannot be opened"), HasSubstr(folder_.path())));
}

TEST_F(DataSetTest, DoesNotWaitForAPipe) {
  const std::string pipe = ::testing::TempDir() + "data_set_pipe";
  ::unlink(pipe.c_str());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const DataSet data = ReadDataSet({pipe, "/dev/zero", ::testing::TempDir()}, {});
  ::unlink(pipe.c_str());
  ASSERT_EQ(data.problems.size(), 3u);
  for (const std::string& problem : data.problems) {
    EXPECT_NE(problem.find("is not a file"), std::string::npos) << problem;
  }
}

TEST_F(DataSetTest, ListsTwentyProblemsAndCountsTheRest) {
  std::string text;
  for (int i = 0; i < 25; ++i) text += "{}\n";
  const DataSet data = ReadDataSet({Write("bad.jsonl", text)}, {});
  ASSERT_THAT(data.problems, SizeIs(21));
  EXPECT_THAT(data.problems[19], HasSubstr("bad.jsonl:20:"));
  EXPECT_EQ(data.problems[20], "… and 5 more broken lines");
}

TEST_F(DataSetTest, TruncatesLongProblemsOfALine) {
  ProblemList list;
  list.AddLine("a", 1, std::string(1024, 'x'));
  list.AddLine("a", 2, std::string(1006, 'x') + "é" + std::string(9000, 'x'));
  const std::vector<std::string> problems = std::move(list).Take();
  EXPECT_EQ(problems[0], "a:1: " + std::string(1024, 'x'));
  // No half of a character.
  EXPECT_EQ(problems[1], "a:2: " + std::string(1006, 'x') + "… (10008 bytes)");
}

TEST_F(DataSetTest, ALineReaderCountsTheLinesThatItSkips) {
  auto lines = LineReader::Open(Write("lines.jsonl", "\n \t\r\na\n\n b \r\nc"));
  ASSERT_TRUE(lines.ok()) << lines.status();
  std::vector<std::string> read;
  while (lines->Next()) read.push_back(absl::StrCat(lines->number(), lines->line()));
  EXPECT_THAT(read, ElementsAre("3a", "5 b \r", "6c"));
  EXPECT_TRUE(lines->status().ok());
  EXPECT_TRUE(absl::IsNotFound(LineReader::Open(folder_.path("missing.jsonl")).status()));
}

// Other readers take the last of them, or the first.
TEST_F(DataSetTest, AKeyThatStandsTwiceIsRefused) {
  const auto problem = [](const std::string& line) {
    return std::string(ParseExample(line, {}).status().message());
  };
  EXPECT_EQ(problem(R"({"prompt": "a", "answer": "1", "answer": "2"})"),
            "`answer` stands twice in the same object; remove one");
  EXPECT_THAT(problem(R"({"prompt": "a", "extra": [{"x": 1}, {"y": {"z": 1, "z": null}}]})"),
              HasSubstr("`z` stands twice"));
  // Colons and quotes in texts, the same key in two objects, and escapes of one key.
  EXPECT_EQ(problem(R"({"prompt": "a\": \\", "x:": {"x:": "\"x:\": 1"}, "extra": {"x:": 1}})"), "");
  EXPECT_THAT(problem(R"({"prompt": "a", "\u0061": 1, "a": 2})"), HasSubstr("`a` stands twice"));
}

}  // namespace
}  // namespace baton
