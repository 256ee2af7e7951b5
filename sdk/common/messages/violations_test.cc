#include "sdk/common/messages/violations.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(ViolationsTest, MentionsAFieldAndWhatIsBelowIt) {
  Violations out;
  out.Add("resources.pools[1].devices", "0 is not in [1, 65536]");
  EXPECT_TRUE(out.Mentions("resources.pools[1].devices"));
  EXPECT_TRUE(out.Mentions("resources.pools"));
  EXPECT_TRUE(out.Mentions("resources"));
  EXPECT_FALSE(out.Mentions("resources.pool"));
  EXPECT_FALSE(out.Mentions("resources.pools[0]"));
  EXPECT_FALSE(out.Mentions("pools"));
}

TEST(ViolationsTest, GivesItsListOnce) {
  Violations out;
  out.Add("rollout.n", "0 is not in [1, 1024]");
  EXPECT_EQ(out.size(), 1u);
  const auto list = out.Take();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].field(), "spec.rollout.n");
  EXPECT_EQ(list[0].description(), "0 is not in [1, 1024]");
  EXPECT_EQ(out.size(), 0u);
}

}  // namespace
}  // namespace baton
