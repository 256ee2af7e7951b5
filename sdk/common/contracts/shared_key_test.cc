#include "sdk/common/contracts/shared_key.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class SharedKeyTest : public ::testing::Test {
 protected:
  void Write(const std::string& text, mode_t mode) {
    std::filesystem::create_directories(dir_.path("data"));
    std::ofstream(file_) << text;
    ASSERT_EQ(::chmod(file_.c_str(), mode), 0);
  }
  std::string Refusal() {
    const auto key = ReadKeyFile("--key", file_);
    return key.ok() ? "" : std::string(key.status().message());
  }

  const TestFolder dir_;
  const std::string file_ = dir_.path("data/relay.key");
};

TEST_F(SharedKeyTest, AKeyHas32CharactersOrMore) {
  Write(std::string(31, 'k') + "\n", 0600);
  EXPECT_THAT(Refusal(), HasSubstr("has 31 characters; give it 32 or more"));
  Write(std::string(32, 'k') + "\n", 0600);
  EXPECT_EQ(Refusal(), "");
}

TEST_F(SharedKeyTest, AKeyIsMadeOnceForItsOwnerAlone) {
  ASSERT_TRUE(MakeKeyFile(file_).ok());
  struct stat info = {};
  ASSERT_EQ(::stat(file_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto key = ReadKeyFile("--key", file_);
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(key->size(), 64u);
  ASSERT_TRUE(MakeKeyFile(file_).ok());
  EXPECT_EQ(*ReadKeyFile("--key", file_), *key) << "it stays";
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path("data"))) {
    files += entry.exists() ? 1 : 0;
  }
  EXPECT_EQ(files, 1u);
  EXPECT_EQ(MakeKeyFile("/proc/nowhere/key").code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(SharedKeyTest, RefusesMissingShortAndSharedKeyFiles) {
  EXPECT_THAT(Refusal(), HasSubstr("--key: cannot read"));
  Write("short\n", 0600);
  EXPECT_THAT(Refusal(), HasSubstr("5 characters"));
  for (const mode_t mode : {0604, 0640, 0620}) {
    Write(std::string(40, 'k') + "\n", mode);
    EXPECT_THAT(Refusal(), HasSubstr("--key: users other than its owner")) << mode;
    EXPECT_THAT(Refusal(), HasSubstr("chmod 600 " + file_)) << mode;
  }
  Write(" " + std::string(40, 'k') + " \r\n", 0400);
  EXPECT_EQ(ReadKeyFile("--key", file_).value_or(""), std::string(40, 'k'));
}

TEST(PublishCapabilityTest, IsOfOneKeyAndOneJob) {
  EXPECT_EQ(PublishCapability("k", "projects/default/jobs/a").size(), 64u);
  EXPECT_EQ(PublishCapability("k", "a"), PublishCapability("k", "a"));
  EXPECT_NE(PublishCapability("k", "a"), PublishCapability("k", "b"));
  EXPECT_NE(PublishCapability("k", "a"), PublishCapability("l", "a"));
  EXPECT_NE(PublishCapability("k", "a", "1"), PublishCapability("k", "a"));
  EXPECT_NE(PublishCapability("k", "a", "1"), PublishCapability("k", "a", "2"));
  EXPECT_NE(PublishCapability("k", "a", "1"), PublishCapability("k", "a1"));
}

}  // namespace
}  // namespace baton
