#include "controller/runtime/files/file_copy.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_format.h"
#include "controller/runtime/files/folders.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;

int64_t BlocksOf(const fs::path& file) {
  struct stat is = {};
  return ::stat(file.c_str(), &is) == 0 ? int64_t{is.st_blocks} * 512 : -1;
}

ino_t InodeOf(const fs::path& file) {
  struct stat is = {};
  return ::stat(file.c_str(), &is) == 0 ? is.st_ino : 0;
}

std::string HashOf(const std::string& bytes) {
  return absl::StrFormat("%016x", XXH3_64bits(bytes.data(), bytes.size()));
}

TEST(FileCopyTest, HolesStayHolesAndCountInTheHash) {
  const TestFolder folder;
  std::string expected(size_t{8} << 20, '\0');
  expected.replace(0, 5, "front");
  expected.replace(size_t{5} << 20, 6, "middle");
  {
    std::ofstream out(folder.path("holes"), std::ios::binary);
    out << "front";
    out.seekp(int64_t{5} << 20);
    out << "middle";
  }
  fs::resize_file(folder.path("holes"), expected.size());
  const auto hash = CopyAndHash(folder.path("holes"), folder.path("copy"));
  ASSERT_TRUE(hash.ok()) << hash.status();
  EXPECT_EQ(*hash, HashOf(expected));
  EXPECT_TRUE(folder.Read("copy") == expected);
  EXPECT_LE(BlocksOf(folder.path("copy")), 64 << 10);
  EXPECT_EQ(*HashOfFile(folder.path("copy")), *hash);
}

TEST(FileCopyTest, LeavesNothingAfterAFailedOrCancelledCopy) {
  const TestFolder folder;
  folder.Write("a", "1");
  EXPECT_EQ(CopyAndHash(folder.path("none"), folder.path("copy")).status().code(),
            absl::StatusCode::kNotFound);
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(CopyAndHash(folder.path("pipe"), folder.path("copy")).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CopyAndHash(folder.path("a"), folder.path("copy"), [] { return true; }).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_FALSE(fs::exists(folder.path("copy")));
}

// A user who may write the first file could write the second one, too.
TEST(FileCopyTest, CopiesFilesThatOthersMayWriteInsteadOfLinking) {
  const TestFolder folder;
  folder.Write("own", "1");
  folder.Write("open", "2");
  ASSERT_EQ(::chmod(folder.path("own").c_str(), 0644), 0);
  ASSERT_EQ(::chmod(folder.path("open").c_str(), 0666), 0);
  EXPECT_TRUE(IsOwnFile(folder.path("own")));
  EXPECT_FALSE(IsOwnFile(folder.path("open")));
  EXPECT_FALSE(IsOwnFile(folder.path("none")));
  ASSERT_TRUE(LinkFile(folder.path("own"), folder.path("to/own")).ok());
  ASSERT_TRUE(LinkFile(folder.path("open"), folder.path("to/open")).ok());
  EXPECT_EQ(InodeOf(folder.path("own")), InodeOf(folder.path("to/own")));
  EXPECT_NE(InodeOf(folder.path("open")), InodeOf(folder.path("to/open")));
  folder.Write("open", "changed");
  EXPECT_EQ(folder.Read("to/open"), "2");
}

}  // namespace
}  // namespace baton::controller
