#include "controller/runtime/payloads/make_payload.h"

#include <string>

#include "gtest/gtest.h"

namespace baton::controller {
namespace {

TrajectoryInfo InfoOf(v1::Purpose purpose, uint64_t prompt_id) {
  TrajectoryInfo info;
  info.purpose = purpose;
  info.prompt_index = info.prompt_id = prompt_id;
  info.sample = 2;
  info.id = TrajectoryId(purpose, prompt_id, info.sample, 4);
  return info;
}

DataSet DataOf(const std::string& line) {
  DataSet data;
  data.examples.push_back(ParseExample(line, OptionsOf(v1::JOB_KIND_RL)).value());
  return data;
}

// A rule compares with nothing where a line has no answer, and an empty answer is one.
TEST(MakePayloadTest, SaysWhatTheLineHasForItsReward) {
  const TrajectoryInfo info = InfoOf(v1::PURPOSE_TRAIN, 0);
  const auto payload = [&](const std::string& line) {
    const DataSet data = DataOf(line);
    return MakePayload(info, FindExample(info, &data, nullptr));
  };
  const v1::Trajectory answered = payload(R"({"prompt": "1+1=", "answer": 2, "source": "sums"})");
  EXPECT_EQ(answered.prompt_text(), "1+1=");
  EXPECT_EQ(answered.answer(), "2");
  EXPECT_EQ(answered.source(), "sums");
  EXPECT_EQ(answered.sample_index(), 2u);
  EXPECT_FALSE(answered.unanswered());
  EXPECT_FALSE(payload(R"({"prompt": "1+1=", "answer": ""})").unanswered());
  EXPECT_TRUE(payload(R"({"prompt": "1+1=", "solution": "2"})").unanswered());
}

TEST(MakePayloadTest, FindsAPromptInTheDataOfItsPurpose) {
  const DataSet train = DataOf(R"({"prompt": "a"})"), val = DataOf(R"({"prompt": "b"})");
  EXPECT_EQ(FindExample(InfoOf(v1::PURPOSE_TRAIN, 0), &train, &val)->prompt, "a");
  EXPECT_EQ(FindExample(InfoOf(v1::PURPOSE_EVAL, 0), &train, &val)->prompt, "b");
  EXPECT_EQ(FindExample(InfoOf(v1::PURPOSE_EVAL, 1), &train, &val), nullptr);
  EXPECT_EQ(FindExample(InfoOf(v1::PURPOSE_EVAL, 0), &train, nullptr), nullptr);
}

}  // namespace
}  // namespace baton::controller
