#include "controller/api/access.h"

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::api {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

TEST(AccessTest, ReadsOneTokenALine) {
  auto access = Access::FromFile(WriteFile("tokens", "# people\n  one \r\n\ntwo\n"));
  ASSERT_TRUE(access.ok()) << access.status();
  EXPECT_THAT(access->tokens(), UnorderedElementsAre("one", "two"));
  EXPECT_FALSE(access->open());
  EXPECT_TRUE(Access().open());
}

TEST(AccessTest, AFileWithoutTokensIsAnError) {
  const auto empty = Access::FromFile(WriteFile("empty", "# nobody\n\n")).status();
  EXPECT_EQ(empty.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(empty.message()), HasSubstr("one token a line"));
  const auto absent = Access::FromFile(::testing::TempDir() + "absent").status();
  EXPECT_EQ(absent.code(), absl::StatusCode::kNotFound);
}

TEST(AccessTest, KnowsLoopback) {
  for (const char* address :
       {"127.0.0.1:7077", "127.1.2.3:0", "localhost:1", "[::1]:7077", "unix:/tmp/socket"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address : {"0.0.0.0:7077", "[::]:7077", "10.0.0.1:1", "example.org:1", ":7077",
                              "127.evil.example:1", "localhost.evil.example:1", ""}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

}  // namespace
}  // namespace baton::api
