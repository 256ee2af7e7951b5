#include "sdk/common/schema/options.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

struct Spec {
  bool flag = false;
  double number = 1;
  std::string text = "a", name = "n";
};

std::vector<OptionField<Spec>> Table() {
  return {{"flag", 1, &Spec::flag, Anything(), ""},
          {"number", 3, &Spec::number, Between(0, 1), ""},
          {"text", 1, &Spec::text, OneOf({"a", "b"}), ""},
          {"name", 1, &Spec::name, Anything(), ""}};
}

TEST(OptionsTest, SetsWhatIsRightAndReportsTheRest) {
  Spec spec;
  std::vector<OptionProblem> problems;
  ApplyOptions<Spec>(Table(), "first", 1,
                     {{"flag", true}, {"number", 2.0}, {"text", "b"}, {"name", ""}, {"x", 1.0}},
                     spec, problems);
  EXPECT_TRUE(spec.flag);
  EXPECT_EQ(spec.number, 1) << "what is out of bounds is not taken over";
  EXPECT_EQ(spec.text, "b");
  ASSERT_EQ(problems.size(), 3u);
  EXPECT_EQ(std::string(ToStatus(problems).message()),
            "name: is empty; name something; number: 2 is not in [0, 1]; "
            "x: first has no such option; it has flag, name, number, text");
  EXPECT_TRUE(ToStatus({}).ok());
}

TEST(OptionsTest, EachUserHasItsOwn) {
  Spec spec;
  std::vector<OptionProblem> problems;
  ApplyOptions<Spec>(Table(), "second", 2, {{"flag", true}, {"number", 0.5}}, spec, problems);
  EXPECT_FALSE(spec.flag);
  EXPECT_EQ(spec.number, 0.5);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].option, "flag");
  EXPECT_EQ(problems[0].message, "second has no such option; it has number");
  problems.clear();
  ApplyOptions<Spec>(Table(), "third", 4, {{"flag", true}}, spec, problems);
  EXPECT_EQ(problems[0].message, "third has no such option; it has none");
}

std::string NumberProblem(const OptionValue& value, const Limits& limits) {
  return CheckValue(OptionValue(1.0), value, limits.bounds, limits.choices);
}

TEST(OptionsTest, BoundsOfNumbers) {
  EXPECT_EQ(NumberProblem(0.0, Above(0)), "0 is not above 0");
  EXPECT_EQ(NumberProblem(1e-300, Above(0)), "");
  EXPECT_EQ(NumberProblem(0.0, AtLeast(0)), "");
  EXPECT_EQ(NumberProblem(-1.0, AtLeast(0)), "-1 is not at least 0");
  EXPECT_EQ(NumberProblem(10000001.0, Between(0, 10000000)), "10000001 is not in [0, 10000000]");
  EXPECT_EQ(NumberProblem(0.0, Between(1e-20, 1)), "0 is not in [1e-20, 1]");
  EXPECT_THAT(NumberProblem(std::numeric_limits<double>::infinity(), Anything()),
              HasSubstr("is not a finite number"));
  EXPECT_EQ(NumberProblem(true, AtLeast(0)), "true is not a number");
  EXPECT_EQ(CheckValue(OptionValue(true), "yes", {}, {}), "'yes' is neither true nor false");
  EXPECT_EQ(CheckValue(OptionValue("a"), 2.0, {}, {}), "2 is not a text");
}

TEST(OptionsTest, MembersAreCheckedUnlessTheyAreTheDefaults) {
  Spec spec;
  spec.text = "c";
  spec.number = 0.5;
  const auto problems = CheckMembers(Table(), spec);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].option, "text");
  EXPECT_EQ(DefaultOf(*FindOption(Table(), "number")), OptionValue(1.0));
}

}  // namespace
}  // namespace baton
