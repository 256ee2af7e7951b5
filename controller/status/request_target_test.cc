#include "controller/status/request_target.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::status {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(RequestTargetTest, SplitsPathAndQuery) {
  auto target = RequestTarget::Parse("/api//v1/a%20b/?after=3&text=x+y%26z&flag#part");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_THAT(target->path, ElementsAre("api", "v1", "a b"));
  EXPECT_EQ(target->Text("text"), "x y&z");
  EXPECT_EQ(target->Text("flag"), "");
  EXPECT_EQ(target->Text("absent"), "");
  EXPECT_EQ(*target->Number("after", 0, 10, 7), 3);
  EXPECT_EQ(*target->Number("absent", 0, 10, 7), 7);
}

TEST(RequestTargetTest, RootHasNoSegments) {
  EXPECT_THAT(RequestTarget::Parse("/")->path, IsEmpty());
}

TEST(RequestTargetTest, APlusIsASpaceInQueriesAlone) {
  auto target = RequestTarget::Parse("/a+b?text=c+d");
  ASSERT_TRUE(target.ok()) << target.status();
  EXPECT_THAT(target->path, ElementsAre("a+b"));
  EXPECT_EQ(target->Text("text"), "c d");
}

TEST(RequestTargetTest, AFragmentIsNoPartOfIt) {
  EXPECT_THAT(RequestTarget::Parse("/a#b/c")->path, ElementsAre("a"));
  EXPECT_EQ(RequestTarget::Parse("/?after=3#end")->Text("after"), "3");
}

TEST(RequestTargetTest, AnEscapedSlashStaysInItsSegment) {
  EXPECT_THAT(RequestTarget::Parse("/a%2Fb/c")->path, ElementsAre("a/b", "c"));
}

TEST(RequestTargetTest, RefusesWhatIsBroken) {
  for (const char* bad :
       {"", "jobs", "http://x/", "/a%2", "/a%zz", "/a%00b", "/a%7fb", "/%ff", "/x?a=%0a"}) {
    EXPECT_EQ(RequestTarget::Parse(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(RequestTargetTest, NumbersHaveBounds) {
  auto target = RequestTarget::Parse("/?low=-1&high=11&text=4x&edge=10");
  ASSERT_TRUE(target.ok());
  EXPECT_THAT(std::string(target->Number("low", 0, 10, 0).status().message()),
              HasSubstr("low: -1 is not a whole number in [0, 10]"));
  EXPECT_FALSE(target->Number("high", 0, 10, 0).ok());
  EXPECT_FALSE(target->Number("text", 0, 10, 0).ok());
  EXPECT_EQ(*target->Number("edge", 0, 10, 0), 10);
}

}  // namespace
}  // namespace baton::status
