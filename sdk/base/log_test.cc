#include "sdk/base/log.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

namespace fs = std::filesystem;

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

}  // namespace
}  // namespace baton
