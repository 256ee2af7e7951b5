// Heartbeats wait for nothing, and count from the time of their arrival.
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "controller/runtime/controller/controller.h"
#include "controller/store/memory_store.h"
#include "gtest/gtest.h"
#include "sdk/common/base/test_folder.h"
#include "tests/support/controller/controller.h"

namespace baton::controller {
namespace {

// Remembers the newest acknowledgement.
class AcknowledgedStream : public WorkerStream {
 public:
  void Send(v1::ControllerMessage message) override {
    absl::MutexLock lock(&mu_);
    welcome_ = welcome_ || message.has_welcome();
    if (message.has_heartbeat_ack()) acknowledged_ = message.heartbeat_ack().sequence();
  }
  void Close(absl::Status) override {
    absl::MutexLock lock(&mu_);
    closed_ = true;
  }
  bool AwaitWelcome() {
    absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(absl::Condition(&welcome_), absl::Seconds(10));
  }
  bool Await(uint64_t sequence) {
    absl::MutexLock lock(&mu_);
    const auto there = [this, sequence]()
                           ABSL_NO_THREAD_SAFETY_ANALYSIS { return acknowledged_ == sequence; };
    return mu_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(10));
  }
  /// Waits at most `time` for the end of the stream.
  bool ClosedWithin(absl::Duration time) {
    absl::MutexLock lock(&mu_);
    return mu_.AwaitWithTimeout(absl::Condition(&closed_), time);
  }

 private:
  absl::Mutex mu_;
  bool welcome_ ABSL_GUARDED_BY(mu_) = false;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t acknowledged_ ABSL_GUARDED_BY(mu_) = 0;
};

// The queue's own thread is busy for longer than a lease.
TEST(ControllerHeartbeatTest, AHeartbeatWaitsForNoMatching) {
  const TestFolder folder;
  ControllerOptions options;
  options.data_root = folder.path();
  options.store = std::make_unique<store::MemoryStore>();
  options.cluster.lease = absl::Seconds(2);
  const absl::Duration lease = options.cluster.lease;
  auto controller = *Controller::Create(std::move(options));
  const auto stream = std::make_shared<AcknowledgedStream>();
  const auto session = controller->Attach(stream);
  v1::WorkerMessage message;
  v1::Hello& hello = *message.mutable_hello();
  hello.set_worker_id("w");
  hello.set_instance_id("one");
  hello.set_protocol_min(1);
  hello.set_protocol_max(1);
  session->OnMessage(message);
  ASSERT_TRUE(stream->AwaitWelcome());

  absl::Notification busy, release;
  controller->ListWorkers({}, [&](const absl::StatusOr<v1::ListWorkersResponse>&) {
    busy.Notify();
    release.WaitForNotification();
  });
  busy.WaitForNotification();
  const absl::Time end = absl::Now() + lease + absl::Milliseconds(200);
  for (uint64_t beat = 1; absl::Now() < end; ++beat) {
    v1::WorkerMessage heartbeat;
    heartbeat.mutable_heartbeat()->set_sequence(beat);
    session->OnMessage(heartbeat);
    ASSERT_TRUE(stream->Await(beat));
    ASSERT_FALSE(stream->ClosedWithin(absl::Milliseconds(100)));  // then the next one is due
  }
  release.Notify();
  const auto workers = Wait<v1::ListWorkersResponse>(
      [&](auto done) { controller->ListWorkers({}, std::move(done)); });
  ASSERT_EQ(workers->workers_size(), 1);
  EXPECT_EQ(workers->workers(0).state(), v1::Worker::STATE_READY);
  session->OnClosed();
  controller.reset();
}

}  // namespace
}  // namespace baton::controller
