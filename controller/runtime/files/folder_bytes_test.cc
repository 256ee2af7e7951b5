#include "controller/runtime/files/folder_bytes.h"

#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/rpc/error.h"

namespace baton::controller {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

constexpr char kJob[] = "projects/p/jobs/one";

int64_t OnDisk(const fs::path& file) {
  struct stat is = {};
  return ::stat(file.c_str(), &is) == 0 ? int64_t{is.st_blocks} * 512 : -1;
}

TEST(FolderBytesTest, CountsWhatIsThereAndWhatChanges) {
  const TestFolder folder;
  const std::string text(300'000, 'x');
  folder.Write("p/one/a/file", text);
  folder.Write("p/two/file", text);
  folder.Write("q/three/file", text);
  folder.Write("p/.staging-1/file", text);
  fs::resize_file(folder.path("p/two/file"), uint64_t{1} << 30);  // a hole
  FolderBytes bytes(folder.path());
  bytes.Start();
  bytes.Settle();
  const int64_t one = OnDisk(folder.path("p/one/a/file")) + OnDisk(folder.path("p/one/a"));
  const int64_t two = OnDisk(folder.path("p/two/file"));
  EXPECT_GE(one, 300'000);
  EXPECT_EQ(bytes.OfJob(kJob), one);
  EXPECT_EQ(bytes.OfProject("p"), one + two);
  EXPECT_LT(bytes.OfProject("p"), 1'000'000);
  EXPECT_THAT(bytes.Projects(), ElementsAre("p", "q"));
  fs::remove(folder.path("p/one/a/file"));
  fs::remove_all(folder.path("q/three"));
  bytes.Touch(kJob);
  bytes.Touch("projects/q/jobs/three");
  bytes.Settle();
  EXPECT_EQ(bytes.OfJob(kJob), OnDisk(folder.path("p/one/a")));
  EXPECT_EQ(bytes.OfProject("q"), 0);
  EXPECT_THAT(bytes.Projects(), ElementsAre("p"));
}

TEST(FolderBytesTest, AFileWithSeveralNamesCountsOnce) {
  const TestFolder folder;
  folder.Write("p/one/file", std::string(400'000, 'x'));
  fs::create_directories(folder.path("p/two"));
  fs::create_hard_link(folder.path("p/one/file"), folder.path("p/two/file"));
  FolderBytes bytes(folder.path());
  bytes.Start();
  bytes.Settle();
  EXPECT_NEAR(static_cast<double>(bytes.OfProject("p")),
              static_cast<double>(OnDisk(folder.path("p/one/file"))), 2.0);
}

TEST(FolderBytesTest, CountsHeldBytesUntilTheyAreReleased) {
  const TestFolder folder;
  FolderBytes bytes(folder.path());
  bytes.Start();
  bytes.Settle();
  auto first = bytes.Hold("p", 60, 100);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(bytes.OfProject("p"), 60);
  EXPECT_EQ(ErrorReason(bytes.Hold("p", 41, 100).status()), "QUOTA_JOB_BYTES");
  EXPECT_TRUE(bytes.Hold("q", 41, 100).ok());
  EXPECT_TRUE(bytes.Hold("p", 41, 0).ok()) << "no limit";
  EXPECT_TRUE(bytes.Hold("p", 40, 100).ok());
  *first = nullptr;
  EXPECT_EQ(bytes.OfProject("p"), 0);
}

}  // namespace
}  // namespace baton::controller
