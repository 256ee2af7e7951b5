#include "controller/runtime/files/folders.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FoldersTest : public ::testing::Test {
 protected:
  FoldersTest() {
    folder_.Write("from/a/one", "1");
    folder_.Write("from/two", "2");
  }
  const TestFolder folder_;
  const fs::path root_ = folder_.path();
};

TEST_F(FoldersTest, AFolderHasASecondName) {
  ASSERT_TRUE(LinkFolder(root_ / "from", root_ / "x/to").ok());
  EXPECT_EQ(folder_.Read("x/to/a/one"), "1");
  EXPECT_EQ(folder_.Read("x/to/two"), "2");
  fs::remove_all(root_ / "from");
  EXPECT_EQ(folder_.Read("x/to/two"), "2");
}

// Emptying the target first would empty the source.
TEST_F(FoldersTest, AFolderIsNotCopiedIntoItself) {
  fs::create_directory_symlink(root_ / "from", root_ / "link");
  const std::string up = "link/../../" + root_.filename().string();
  for (const char* to : {"from", "from/", "from/../from", "from/a", "from/new/deep", "link",
                         "link/a", ".", up.c_str()}) {
    EXPECT_EQ(LinkFolder(root_ / "from", root_ / to).code(), absl::StatusCode::kInvalidArgument)
        << to;
    EXPECT_EQ(LinkFolder(root_ / "link", root_ / to).code(), absl::StatusCode::kInvalidArgument)
        << to;
    EXPECT_EQ(folder_.Read("from/a/one") + folder_.Read("from/two"), "12") << to;
  }
}

TEST_F(FoldersTest, LinkFolderOverwritesNoExistingFiles) {
  folder_.Write("to/mine", "3");
  EXPECT_EQ(LinkFolder(root_ / "from", root_ / "to").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(folder_.Read("to/mine"), "3");
  fs::remove(root_ / "to/mine");
  EXPECT_TRUE(LinkFolder(root_ / "from", root_ / "to").ok());
}

TEST_F(FoldersTest, LinksThatLeadOutAreNotFollowed) {
  folder_.Write("secret", "s");
  fs::create_symlink(root_ / "secret", root_ / "from/a/leak");
  const absl::Status refused = LinkFolder(root_ / "from", root_ / "to");
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("from/a/leak"));
  fs::remove(root_ / "from/a/leak");
  fs::create_directory_symlink(root_, root_ / "from/up");
  EXPECT_EQ(LinkFolder(root_ / "from", root_ / "to2").code(), absl::StatusCode::kInvalidArgument);
  fs::remove(root_ / "from/up");
  fs::create_symlink("one", root_ / "from/a/within");
  ASSERT_TRUE(LinkFolder(root_ / "from", root_ / "to3").ok());
  EXPECT_FALSE(fs::is_symlink(root_ / "to3/a/within"));
  EXPECT_EQ(folder_.Read("to3/a/within"), "1");
}

TEST_F(FoldersTest, AFileIsReplacedOnceTheNewOneIsWhole) {
  folder_.Write("to", "old");
  EXPECT_EQ(LinkFile(root_ / "nowhere", root_ / "to").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LinkFile(root_ / "from", root_ / "to").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(folder_.Read("to"), "old");
  ASSERT_TRUE(LinkFile(root_ / "from/two", root_ / "to").ok());
  EXPECT_EQ(folder_.Read("to"), "2");
  ASSERT_TRUE(LinkFile(root_ / "from/two", root_ / "to").ok());  // it is the same file
  ASSERT_TRUE(LinkFile(root_ / "to", root_ / "to").ok());
  EXPECT_EQ(folder_.Read("to"), "2");
}

}  // namespace
}  // namespace baton::controller
