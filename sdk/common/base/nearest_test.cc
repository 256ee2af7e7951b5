#include "sdk/common/base/nearest.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::IsNull;
using ::testing::Pointee;

TEST(NearestTest, TheFewestEditsWinAndTheFirstOfEquals) {
  const std::vector<std::string> known = {"actor", "critic", "acts", "reward"};
  EXPECT_THAT(Nearest("actr", known), Pointee(std::string("actor"))) << "acts is as near";
  EXPECT_THAT(Nearest("acts", known), Pointee(std::string("acts")));
  EXPECT_THAT(Nearest("rewards", known), Pointee(std::string("reward")));
}

TEST(NearestTest, SuggestsNothingThatIsTooFar) {
  EXPECT_THAT(Nearest("ab", {"abcd"}), Pointee(std::string("abcd"))) << "two edits";
  EXPECT_THAT(Nearest("ab", {"abcde"}), IsNull());
  EXPECT_THAT(Nearest("abcdef", {"abcxyz"}), Pointee(std::string("abcxyz"))) << "half of it";
  EXPECT_THAT(Nearest("abcdef", {"abwxyz"}), IsNull());
  EXPECT_THAT(Nearest("a", {}), IsNull());
}

}  // namespace
}  // namespace baton
