#include "sdk/base/options.h"

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
  Bounds unit;
  unit.low = 0, unit.high = 1;
  return {{"flag", 1, &Spec::flag},
          {"number", 3, &Spec::number, unit},
          {"text", 1, &Spec::text, {}, {"a", "b"}},
          {"name", 1, &Spec::name}};
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

TEST(OptionsTest, BoundsOfNumbers) {
  Bounds above;
  above.low = 0, above.above_low = true;
  EXPECT_EQ(CheckNumber(0.0, above), "0 is not above 0");
  EXPECT_EQ(CheckNumber(1e-300, above), "");
  Bounds least;
  least.low = 0;
  EXPECT_EQ(CheckNumber(0.0, least), "");
  EXPECT_EQ(CheckNumber(-1.0, least), "-1 is not at least 0");
  EXPECT_THAT(CheckNumber(std::numeric_limits<double>::infinity(), least),
              HasSubstr("is not a finite number"));
  EXPECT_EQ(CheckNumber(true, least), "true is not a number");
  EXPECT_EQ(CheckFlag("yes"), "'yes' is neither true nor false");
  EXPECT_EQ(CheckText(2.0, {}), "2 is not a text");
}

}  // namespace
}  // namespace baton
