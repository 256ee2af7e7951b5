#include "controller/api/access.h"

#include "gtest/gtest.h"

namespace baton::api {
namespace {

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
