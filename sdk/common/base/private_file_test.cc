#include "sdk/common/base/private_file.h"

#include <sys/stat.h>

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/loopback.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PrivateFileTest : public ::testing::Test {
 protected:
  void Write(const std::string& text, mode_t mode) {
    std::ofstream(path_) << text;
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
  }
  void TearDown() override { std::remove(path_.c_str()); }

  const std::string path_ = ::testing::TempDir() + "private_file_test";
};

TEST_F(PrivateFileTest, ATokenIsTheFirstLineThatSaysSomething) {
  Write("# of worker 3\n\n  baton-1-2 \nbaton-3-4\n", 0600);
  EXPECT_EQ(ReadTokenFile("--token-file", path_).value(), "baton-1-2");
  Write("# nothing\n\n", 0600);
  EXPECT_TRUE(absl::IsNotFound(ReadTokenFile("--token-file", path_).status()));
}

TEST_F(PrivateFileTest, RefusesAFileThatOthersMayAccessWithTheRemedy) {
  for (const mode_t mode : {0644, 0640, 0604, 0660, 0602}) {
    Write("baton-1-2\n", mode);
    const absl::Status refused = ReadTokenFile("--token-file", path_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << mode;
    EXPECT_THAT(refused.message(), AllOf(HasSubstr("--token-file"), HasSubstr("chmod 600")));
  }
  Write("baton-1-2\n", 0400);
  EXPECT_TRUE(ReadTokenFile("--token-file", path_).ok());
  EXPECT_TRUE(absl::IsNotFound(ReadTokenFile("--token-file", path_ + ".none").status()));
}

TEST_F(PrivateFileTest, MakePrivateKeepsTheContent) {
  ASSERT_TRUE(MakePrivate(path_).ok());
  EXPECT_TRUE(CheckPrivate("it", path_).ok());
  Write("content\n", 0664);
  ASSERT_TRUE(MakePrivate(path_).ok());
  EXPECT_EQ(ReadTokenFile("it", path_).value(), "content");
  EXPECT_TRUE(absl::IsUnavailable(MakePrivate("/no/such/folder/file")));
}

TEST(IsLoopback, KnowsThisMachine) {
  for (const char* address : {"127.0.0.1:7077", "localhost:1", "[::1]:1", "unix:/tmp/s",
                              "ipv4:127.0.0.1:1", "dns:///localhost:1", "127.255.3.4:1"}) {
    EXPECT_TRUE(IsLoopback(address)) << address;
  }
  for (const char* address :
       {"0.0.0.0:7077", "[::]:7077", "10.0.0.1:1", "example.org:1", ":7077", "127.example.org:1",
        "dns:///127.example.org:1", "", "localhosts:1"}) {
    EXPECT_FALSE(IsLoopback(address)) << address;
  }
}

}  // namespace
}  // namespace baton
