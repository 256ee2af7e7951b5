#include "controller/runtime/calls/data_readers.h"

#include <atomic>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kLargeBytes = 10;
uint64_t Small() { return 1; }
uint64_t Large() { return kLargeBytes; }

TEST(DataReadersTest, SkipsQueuedWorkWhenTheGateCloses) {
  Gate gate;
  DataReaders readers(&gate, 1, kLargeBytes);
  absl::Notification begun, closed;
  std::atomic<int> done{0};
  const auto first = [&] {
    begun.Notify();
    closed.WaitForNotification();
    ++done;
  };
  readers.Post("a", Small, first);
  readers.Post("a", Small, [&] { ++done; });
  readers.Post("a", Large, [&] { ++done; });
  begun.WaitForNotification();
  gate.Close();
  closed.Notify();
  readers.Join();
  EXPECT_EQ(done, 1);
}

// For example, with files on a file system that does not answer.
TEST(DataReadersTest, SlowFilesOfAProjectDoNotHoldAnothers) {
  Gate gate;
  DataReaders readers(&gate, 3, kLargeBytes);
  absl::Notification answered, read;
  for (int i = 0; i < 10; ++i) {
    readers.Post("a", Small, [&] { answered.WaitForNotification(); });
  }
  readers.Post("b", Small, [&] { read.Notify(); });
  EXPECT_TRUE(read.WaitForNotificationWithTimeout(absl::Seconds(20)));
  answered.Notify();
  gate.Close();
  readers.Join();
}

TEST(DataReadersTest, ProjectsTakeTurnsAtTheThreadForLargeLists) {
  Gate gate;
  DataReaders readers(&gate, 2, kLargeBytes);
  absl::Mutex mu;
  std::vector<std::string> done;
  absl::Notification begun, lined_up, last;
  readers.Post("a", Large, [&] {
    begun.Notify();
    lined_up.WaitForNotification();
  });
  begun.WaitForNotification();
  std::atomic<int> sized{0};
  const auto post = [&](const std::string& project) {
    const auto size = [&] {
      ++sized;
      return kLargeBytes;
    };
    readers.Post(project, size, [&, project] {
      absl::MutexLock lock(&mu);
      done.push_back(project);
      if (done.size() == 4) last.Notify();
    });
  };
  for (const char* project : {"a", "a", "a", "b"}) post(project);
  // A project's small read begins once its large reads are queued.
  absl::Notification a_lined_up, b_lined_up;
  readers.Post("a", Small, [&] { a_lined_up.Notify(); });
  readers.Post("b", Small, [&] { b_lined_up.Notify(); });
  a_lined_up.WaitForNotification();
  b_lined_up.WaitForNotification();
  EXPECT_EQ(sized, 4);
  lined_up.Notify();
  last.WaitForNotification();
  EXPECT_THAT(done, ElementsAre("b", "a", "a", "a"));
  gate.Close();
  readers.Join();
}

// Work that was held back by its project's bound is run by the thread that ran the project's
// earlier work.
TEST(DataReadersTest, RunsAllWorkThatAProjectsBoundHeldBack) {
  Gate gate;
  DataReaders readers(&gate, 2, kLargeBytes);
  std::atomic<int> done{0};
  absl::Notification all;
  for (int i = 0; i < 1000; ++i) {
    readers.Post(i % 2 == 0 ? "a" : "b", i % 3 == 0 ? Large : Small, [&] {
      if (++done == 1000) all.Notify();
    });
  }
  EXPECT_TRUE(all.WaitForNotificationWithTimeout(absl::Seconds(60)));
  gate.Close();
  readers.Join();
}

}  // namespace
}  // namespace baton::controller
