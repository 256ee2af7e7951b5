#include "sdk/common/base/relative_path.h"

#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(RelativePathTest, StaysBelowItsFolder) {
  for (const char* path : {"a", "actor/model.safetensors", "..a", "a..", "a/.b/c", "..."}) {
    EXPECT_TRUE(StaysBelow(path)) << path;
  }
  for (const char* path :
       {"", "/", "/a", "..", ".", "a/..", "../a", "a/../b", "a//b", "a/", "./a", "a/./b"}) {
    EXPECT_FALSE(StaysBelow(path)) << path;
  }
  EXPECT_FALSE(StaysBelow(std::string("a\0b", 3)));
}

}  // namespace
}  // namespace baton
