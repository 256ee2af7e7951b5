// Tests of what absl_sync.cc tells ThreadSanitizer: without it TSan reports these as races.
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace baton {
namespace {

// The last owner frees the text that the other has read. Only the reference count orders the two.
TEST(AbslSyncTest, TheLastOwnerOfAStatusMayFreeIt) {
  auto status = std::make_unique<absl::Status>(absl::InternalError("a text of some length"));
  std::atomic<bool> dropped = false;
  std::thread reader([&dropped, copy = *status]() mutable {
    EXPECT_EQ(copy.message().size(), 21u);
    copy = absl::OkStatus();
    dropped.store(true, std::memory_order_relaxed);
  });
  while (!dropped.load(std::memory_order_relaxed)) std::this_thread::yield();
  status.reset();
  reader.join();
}

// Readers share a lock with each other, and no reader with the writer.
TEST(AbslSyncTest, AReaderSeesWhatTheWriterWrote) {
  absl::Mutex mu;
  int value = 0;
  std::thread reader([&] {
    while (true) {
      absl::ReaderMutexLock lock(&mu);
      if (value == 1) return;
    }
  });
  {
    absl::MutexLock lock(&mu);
    value = 1;
  }
  reader.join();
}

}  // namespace
}  // namespace baton
