#include "sdk/common/base/log.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(LogTest, AFileIsRotatedAndOldOnesGo) {
  const std::string folder = ::testing::TempDir() + "log_test";
  fs::remove_all(folder);
  fs::create_directories(folder);
  InitLog({LogLevel::kInfo, folder + "/it.log", "test"});
  const std::string line(1 << 20, 'x');
  for (int i = 0; i < 200; ++i) Log(LogLevel::kInfo, line);  // more than five files hold
  InitLog({});
  uintmax_t bytes = 0;
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    EXPECT_LE(entry.file_size(), uintmax_t{33} << 20) << entry.path();
    bytes += entry.file_size();
    ++files;
  }
  EXPECT_EQ(files, 5);
  EXPECT_GT(bytes, uintmax_t{4 * 31} << 20);
  fs::remove_all(folder);
}

TEST(LogTest, AFileThatWasMovedAwayIsOpenedAnew) {
  const std::string folder = ::testing::TempDir() + "log_reopen_test";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const std::string path = folder + "/it.log";
  const auto read = [](const std::string& file) {
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  InitLog({LogLevel::kInfo, path, "test"});
  Log(LogLevel::kInfo, "first");
  fs::rename(path, path + ".old");
  Log(LogLevel::kInfo, "second");
  EXPECT_FALSE(fs::exists(path)) << "it follows the file until it is told";
  ReopenLog();
  EXPECT_TRUE(ReopensOnHangup());
  Log(LogLevel::kInfo, "third");
  EXPECT_THAT(read(path + ".old"), AllOf(HasSubstr("first"), HasSubstr("second")));
  EXPECT_THAT(read(path), AllOf(HasSubstr("third"), Not(HasSubstr("second"))));
  ReopenLog();  // nothing was moved: it is appended to
  Log(LogLevel::kInfo, "fourth");
  EXPECT_THAT(read(path), AllOf(HasSubstr("third"), HasSubstr("fourth")));
  // A folder is in its place: the old file stays.
  fs::rename(path, path + ".older");
  fs::create_directories(path);
  ReopenLog();
  EXPECT_THAT(read(path + ".older"), HasSubstr("cannot be reopened"));
  InitLog({LogLevel::kInfo, folder + "/silent.log", "test", /*silent=*/true});
  Log(LogLevel::kError, "unheard");
  EXPECT_EQ(read(folder + "/silent.log"), "");
  InitLog({});
  ReopenLog();  // there is none
  fs::remove_all(folder);
}

}  // namespace
}  // namespace baton
