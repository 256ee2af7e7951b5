#include "sdk/worker/log_queue.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::EndsWith;

TEST(LogQueueTest, CutsALine) {
  LogQueue queue;
  queue.Push(LogLevel::kInfo, std::string(64 << 20, 'x'));
  v1::WorkerLog log;
  ASSERT_TRUE(queue.Pop(log));
  EXPECT_EQ(log.message().size(), 8192u);
  EXPECT_THAT(log.message(), EndsWith("… (67108864 bytes)"));
  EXPECT_FALSE(queue.Pop(log));
}

// 1 MiB holds 128 lines of 8 KiB.
TEST(LogQueueTest, IsBoundedInBytes) {
  LogQueue queue;
  queue.SetJob("projects/p/jobs/j");
  for (int i = 0; i < 1000; ++i) {
    std::string line = absl::StrCat(i, " ");
    queue.Push(LogLevel::kInfo, line + std::string(8192 - line.size(), 'x'));
  }
  v1::WorkerLog log;
  ASSERT_TRUE(queue.Pop(log));
  EXPECT_EQ(log.message(), "872 log lines were dropped while the controller was away");
  EXPECT_EQ(log.job(), "projects/p/jobs/j");
  int lines = 0;
  for (; queue.Pop(log); ++lines) {
    EXPECT_EQ(log.message().substr(0, 4), absl::StrCat(872 + lines, " "));
  }
  EXPECT_EQ(lines, 128);
  // A line that was taken out makes room again.
  for (int i = 0; i < 128; ++i) queue.Push(LogLevel::kInfo, std::string(8192, 'y'));
  for (lines = 0; queue.Pop(log); ++lines) EXPECT_EQ(log.message()[0], 'y');
  EXPECT_EQ(lines, 128);
}

TEST(LogQueueTest, IsBoundedInLines) {
  LogQueue queue;
  for (int i = 0; i < 1001; ++i) queue.Push(LogLevel::kInfo, "x");
  v1::WorkerLog log;
  ASSERT_TRUE(queue.Pop(log));
  EXPECT_EQ(log.message(), "1 log lines were dropped while the controller was away");
}

}  // namespace
}  // namespace baton
