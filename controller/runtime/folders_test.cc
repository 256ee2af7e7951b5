#include "controller/runtime/folders.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FoldersTest : public ::testing::Test {
 protected:
  FoldersTest() {
    fs::remove_all(root_);
    Put("from/a/one", "1");
    Put("from/two", "2");
  }
  ~FoldersTest() override { fs::remove_all(root_); }
  void Put(const std::string& name, const std::string& text) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  std::string Text(const std::string& name) const {
    std::ifstream in(root_ / name);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  const fs::path root_ = fs::path(::testing::TempDir()) / "folders_test";
};

TEST_F(FoldersTest, AFolderHasASecondName) {
  ASSERT_TRUE(LinkFolder(root_ / "from", root_ / "x/to").ok());
  EXPECT_EQ(Text("x/to/a/one"), "1");
  EXPECT_EQ(Text("x/to/two"), "2");
  fs::remove_all(root_ / "from");
  EXPECT_EQ(Text("x/to/two"), "2");
}

// Emptying the target first would empty the source.
TEST_F(FoldersTest, AFolderIsNotCopiedIntoItself) {
  fs::create_directory_symlink(root_ / "from", root_ / "link");
  for (const char* to : {"from", "from/", "from/../from", "from/a", "from/new/deep", "link",
                         "link/a", ".", "link/../../folders_test"}) {
    EXPECT_EQ(LinkFolder(root_ / "from", root_ / to).code(), absl::StatusCode::kInvalidArgument)
        << to;
    EXPECT_EQ(LinkFolder(root_ / "link", root_ / to).code(), absl::StatusCode::kInvalidArgument)
        << to;
    EXPECT_EQ(Text("from/a/one") + Text("from/two"), "12") << to;
  }
}

TEST_F(FoldersTest, WhatIsThereStays) {
  Put("to/mine", "3");
  EXPECT_EQ(LinkFolder(root_ / "from", root_ / "to").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Text("to/mine"), "3");
  fs::remove(root_ / "to/mine");
  EXPECT_TRUE(LinkFolder(root_ / "from", root_ / "to").ok());
}

TEST_F(FoldersTest, LinksThatLeadOutAreNotFollowed) {
  Put("secret", "s");
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
  EXPECT_EQ(Text("to3/a/within"), "1");
}

TEST_F(FoldersTest, AFileIsReplacedOnceTheNewOneIsWhole) {
  Put("to", "old");
  EXPECT_EQ(LinkFile(root_ / "nowhere", root_ / "to").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LinkFile(root_ / "from", root_ / "to").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Text("to"), "old");
  ASSERT_TRUE(LinkFile(root_ / "from/two", root_ / "to").ok());
  EXPECT_EQ(Text("to"), "2");
  ASSERT_TRUE(LinkFile(root_ / "from/two", root_ / "to").ok());  // it is the same file
  ASSERT_TRUE(LinkFile(root_ / "to", root_ / "to").ok());
  EXPECT_EQ(Text("to"), "2");
}

}  // namespace
}  // namespace baton::controller
