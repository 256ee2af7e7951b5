// Lines of one response each that a label likes or dislikes, as TRL writes them for KTO.
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/data_set/data_set.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const DataSetOptions kSft = OptionsOf(v1::JOB_KIND_SFT);
const DataSetOptions kPairs = OptionsOf(v1::JOB_KIND_REWARD_MODEL);

class LabelsTest : public ::testing::Test {
 protected:
  DataSet Read(const std::vector<std::string>& lines, const DataSetOptions& options) const {
    folder_.Write("data.jsonl", absl::StrJoin(lines, "\n"));
    return ReadDataSet({folder_.path("data.jsonl")}, options);
  }
  static std::string Line(const std::string& prompt, const std::string& response, bool label) {
    return absl::StrCat("{\"prompt\": \"", prompt, "\", \"completion\": \"", response,
                        "\", \"label\": ", label ? "true" : "false", "}");
  }
  TestFolder folder_;
};

TEST_F(LabelsTest, SftKeepsLikedResponsesAndCountsTheRest) {
  const DataSet data =
      Read({Line("p", "good", true), Line("p", "bad", false), Line("q", "fine", true)}, kSft);
  EXPECT_THAT(data.problems, IsEmpty());
  ASSERT_THAT(data.examples, SizeIs(2));
  EXPECT_EQ(data.examples[1].response, "fine");
  EXPECT_EQ(data.disliked, 1u);
}

TEST_F(LabelsTest, ARewardModelLearnsFromPairsOfOnePrompt) {
  const DataSet data = Read(
      {Line("p", "p1", true), Line("q", "q1", false), Line("p", "p2", true), Line("p", "p3", false),
       Line("q", "q2", true), Line("p", "p4", false), Line("r", "r1", true), Line("q", "q3", true)},
      kPairs);
  EXPECT_THAT(data.problems, IsEmpty());
  std::vector<std::string> pairs;
  for (const Example& e : data.examples) {
    pairs.push_back(absl::StrCat(e.prompt, ": ", e.response, " over ", e.rejected));
  }
  EXPECT_THAT(pairs, ElementsAre("p: p1 over p3", "q: q2 over q1", "p: p2 over p4"));
  EXPECT_EQ(data.unpaired, 2u);
}

TEST_F(LabelsTest, OneResponseIsNotLikedAndDislikedAtOnce) {
  const DataSet data = Read(
      {Line("p", "x", true), Line("p", "x", false), Line("p", "y", true), Line("p", "z", false)},
      kPairs);
  ASSERT_THAT(data.problems, SizeIs(1));
  EXPECT_THAT(data.problems[0], AllOf(HasSubstr("data.jsonl:2: "), HasSubstr("true and false")));
  EXPECT_THAT(data.examples, SizeIs(1));
}

TEST_F(LabelsTest, AListOfWhichNothingIsLeftIsAMistake) {
  EXPECT_THAT(Read({Line("p", "bad", false)}, kSft).problems,
              ElementsAre(HasSubstr("1 lines have `label: false`")));
  EXPECT_THAT(Read({Line("p", "x", true), Line("q", "y", false)}, kPairs).problems,
              ElementsAre(HasSubstr("no prompt has both a line")));
}

TEST_F(LabelsTest, IgnoresUnrelatedLabels) {  // classes, where the answer is one
  const std::string number = R"({"prompt": "p", "response": "r", "label": 0})";
  EXPECT_EQ(ParseExample(number, kSft)->label, std::nullopt);
  DataSetOptions options = OptionsOf(v1::JOB_KIND_RL);
  const std::string no = R"({"prompt": "p", "label": false})";
  EXPECT_EQ(ParseExample(no, options)->label, std::nullopt);
  options.answer_key = "label";
  EXPECT_EQ(ParseExample(R"({"prompt": "p", "label": 3})", options)->answer, "3");
}

}  // namespace
}  // namespace baton
