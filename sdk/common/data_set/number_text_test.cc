#include "sdk/common/data_set/number_text.h"

#include <string>

#include "gtest/gtest.h"
#include "sdk/common/data_set/data_set.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

std::string Kept(const std::string& json, KeyOrder order = KeyOrder::kAsGiven) {
  return JsonText(ParseKeepingNumbers(json), order);
}

TEST(NumberTextTest, KeepsEveryNumberAsItIsWritten) {
  for (const char* text : {"1.10", "1e3", "1E+3", "-0", "-0.0", "0", "7", "-7",
                           "18446744073709551615", "18446744073709551616", "-9223372036854775809",
                           "12345678901234567890123456789012345678901234567890", "1e-400",
                           "0.1000000000000000055511151231257827"}) {
    EXPECT_EQ(Kept(text), text);
    EXPECT_EQ(Kept(std::string(R"({"a":[)") + text + "]}"), std::string(R"({"a":[)") + text + "]}");
  }
}

TEST(NumberTextTest, SaysWhereANumberWouldChange) {
  for (const char* text : {"1.10", "[1e3]", R"({"a":{"b":[-0]}})", "18446744073709551616"}) {
    EXPECT_TRUE(HasNumberText(Json::parse(text))) << text;
  }
  for (const char* text : {"0", "-1", "18446744073709551615", "\"1.10\"", "null", "[]"}) {
    EXPECT_FALSE(HasNumberText(Json::parse(text))) << text;
  }
}

TEST(NumberTextTest, OtherValuesAreWrittenAsUsual) {
  const std::string json = R"({"b":[true,null,{},[],"\u00e9\"\\\n"],"a":{"y":1,"x":"1.10"}})";
  EXPECT_EQ(Kept(json), Json::parse(json).dump());
  EXPECT_EQ(Kept(json, KeyOrder::kSorted), nlohmann::json::parse(json).dump());
  EXPECT_EQ(Kept(R"({"a": 1, "b": 2, "a": 3.0})"), R"({"a":3.0,"b":2})") << "the last of a key";
  EXPECT_TRUE(ParseKeepingNumbers("{").is_discarded());
}

Example Read(const std::string& line, const DataSetOptions& options = {}) {
  return ParseExample(line, options).value();
}

TEST(NumberTextTest, AnswersAndExtraAreAsWritten) {
  EXPECT_EQ(Read(R"({"prompt": "q", "answer": 1.10})").answer, "1.10");
  EXPECT_EQ(Read(R"({"prompt": "q", "answer": 1e3})").answer, "1e3");
  EXPECT_EQ(Read(R"({"prompt": "q", "answer": 18446744073709551616})").answer,
            "18446744073709551616");
  EXPECT_EQ(Read(R"({"prompt": "q", "answer": 2, "extra": {"z": 1.50, "a": [1E2]}})").extra_json,
            R"({"a":[1E2],"z":1.50})");
  DataSetOptions options;
  options.answer_key = "reward_model.ground_truth";
  options.extra_key = "extra_info";
  const Example verl = Read(
      R"({"prompt": "q", "reward_model": {"ground_truth": 72.0}, "extra_info": {"index": 0.10}})",
      options);
  EXPECT_EQ(verl.answer, "72.0");
  EXPECT_EQ(verl.extra_json, R"({"index":0.10})");
}

}  // namespace
}  // namespace baton
