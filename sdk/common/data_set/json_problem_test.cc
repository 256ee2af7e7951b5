#include "sdk/common/data_set/json_problem.h"

#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

// Columns counted by hand, in characters.
TEST(JsonProblemTest, NamesTheColumnAndTheCause) {
  const struct {
    const char* line;
    const char* problem;
  } cases[] = {
      {R"({"prompt": )",
       "column 12: not valid JSON: the line ends too early; a value or a closing bracket is "
       "missing"},
      {R"({"a": "x})",
       "column 10: not valid JSON: the line ends inside a text; its closing quote is missing"},
      {R"({'prompt': 'x'})", "column 2: not valid JSON: a single quote; JSON has double quotes"},
      {R"({"a": 1,})", "column 9: not valid JSON: a comma before the closing bracket; remove it"},
      {R"({"é": 1, })", "column 10: not valid JSON: a comma before the closing bracket; remove it"},
      {R"({"a" 1})",
       "column 6: not valid JSON: '1' does not belong here; is a comma or a colon missing?"},
      {R"({"a": "b" "c"})",
       "column 13: not valid JSON: a text that does not belong here; a comma or a colon before it "
       "is "
       "missing"},
      {R"({"a": 1} {"b": 2})",
       "column 10: not valid JSON: text after the end of the value; give one object a line"},
      {"{\"a\": \"\tx\"}", "column 8: not valid JSON: a tab inside a text; write it as \\t"},
      {"{\"a\": \"\xff\"}", "column 8: not valid JSON: a byte that is not UTF-8"},
      {R"({"a": True})",
       "column 7: not valid JSON: 'True' is Python's; JSON writes true (json.dumps of Python "
       "does)"},
      {R"({"a": None})",
       "column 7: not valid JSON: 'None' is Python's; JSON writes null (json.dumps of Python "
       "does)"},
      {R"({"a": NaN})",
       "column 7: not valid JSON: 'NaN' is no number of JSON (Python's json writes it for a float "
       "that is not finite); write null, or leave the key out"},
      {R"({"a": -Infinity})",
       "column 8: not valid JSON: 'Infinity' is no number of JSON (Python's json writes it for a "
       "float that is not finite); write null, or leave the key out"},
      {R"({"a": yes})",
       "column 7: not valid JSON: 'yes' does not belong here; keys and texts stand in double "
       "quotes, and the only other words are true, false and null"},
      {R"({"a": "\x"})",
       "column 9: not valid JSON: not a valid escape; a backslash itself is written \\\\"},
      {R"({"a": [1, 2})", "column 12: not valid JSON: '}' does not belong here"},
      {R"({"a": 1e999})",
       "not valid JSON: a number that is too large; write it as a text, in double quotes"},
      {"",
       "column 1: not valid JSON: the line ends too early; a value or a closing bracket is "
       "missing"},
  };
  for (const auto& [line, problem] : cases) EXPECT_EQ(JsonProblem(line), problem) << line;
}

TEST(JsonProblemTest, KnowsOtherFormats) {
  EXPECT_EQ(OtherFormat("PAR1\x15"), "it is a parquet file; convert it (docs/formats/data-set.md)");
  EXPECT_EQ(OtherFormat("\n  [{"),
            "it is a JSON array; write one element a line (jq -c '.[]' FILE)");
  EXPECT_EQ(OtherFormat("{"),
            "it is JSON over several lines; write one object a line (jq -c . FILE)");
  EXPECT_EQ(OtherFormat("prompt\tanswer"),
            "it may be a table; convert it (docs/formats/data-set.md)");
  for (const char* unknown : {"", "hello", "{'prompt': 'a'}", " \n"}) {
    EXPECT_EQ(OtherFormat(unknown), "") << unknown;
  }
}

}  // namespace
}  // namespace baton
