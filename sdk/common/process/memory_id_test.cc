#include "sdk/common/process/memory_id.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::MatchesRegex;
using ::testing::TempDir;

TEST(MemoryIdTest, NamesTheFileSystem) {
  EXPECT_THAT(MemoryId("/proc"), MatchesRegex("[0-9a-f-]{36}:[0-9]+\\.[0-9]+"));
  EXPECT_EQ(MemoryId("/proc"), MemoryId("/proc/self"));
  EXPECT_NE(MemoryId("/proc"), MemoryId("/"));
}

TEST(MemoryIdTest, IsEmptyWithoutTheDirectory) { EXPECT_EQ(MemoryId("/no/such/folder"), ""); }

}  // namespace
}  // namespace baton
