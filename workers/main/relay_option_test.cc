#include "workers/main/relay_option.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(RelayOption, IsAHostAndAPort) {
  for (const char* relay : {"127.0.0.1:7079", "localhost:1", "relay:65535", "[::1]:7079"}) {
    EXPECT_EQ(RelayProblem(relay), "");
  }
  for (const char* relay :
       {"", "7079", "localhost", ":7079", "localhost:", "localhost:0", "localhost:65536",
        "localhost:x", "localhost: 1", "localhost:+1", "::1:7079", "[::1:7079", "[]:7079",
        "http://localhost:7079", "unix:/run/relay", "two hosts:7079"}) {
    EXPECT_NE(RelayProblem(relay), "") << relay;
  }
  EXPECT_EQ(RelayProblem("localhost"),
            "'localhost' is not host:port of this machine's relay, such as 127.0.0.1:7079");
}

}  // namespace
}  // namespace baton
