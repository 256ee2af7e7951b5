// A worker whose connection, lease or controller is lost.
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/worker/fake_controller.h"
#include "sdk/worker/worker.h"
#include "tests/support/sdk/worker.h"

namespace baton {
namespace {

using ::testing::Contains;
using ::testing::Not;

/// Tasks that end only when the test says so.
class HeldTasks {
 public:
  void Add(std::shared_ptr<TaskContext> context) {
    absl::MutexLock lock(&mu_);
    contexts_.push_back(std::move(context));
  }
  std::shared_ptr<TaskContext> Wait(size_t count) {
    absl::MutexLock lock(&mu_);
    const auto enough = [this, count]()
                            ABSL_SHARED_LOCKS_REQUIRED(mu_) { return contexts_.size() >= count; };
    if (!mu_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(10))) return nullptr;
    return contexts_[count - 1];
  }

 private:
  absl::Mutex mu_;
  std::vector<std::shared_ptr<TaskContext>> contexts_ ABSL_GUARDED_BY(mu_);
};

class WorkerRecovery : public ::testing::Test {
 protected:
  void StartWorker() {
    worker_ = std::make_unique<RunningWorker>(
        controller_, [](WorkerOptions& options) { options.progress_tokens = 2; });
    RoleOptions role;
    role.on_release = [this](const std::string& job) {
      absl::MutexLock lock(&mu_);
      released_ = job;
    };
    (*worker_)->RegisterRole("rollout", role).IgnoreError();
    (*worker_)
        ->RegisterAsyncMethod(
            "rollout", "generate", 4,
            [this](std::shared_ptr<TaskContext> context) { held_.Add(std::move(context)); })
        .IgnoreError();
    worker_->Start();
    ASSERT_TRUE(controller_.RunTask(MakeTask("assign", "rollout", "assign_role")).has_value());
  }
  std::shared_ptr<TaskContext> StartTask(const std::string& token) {
    controller_.SendTask(MakeTask(token, "rollout", "generate"));
    return held_.Wait(++tasks_);
  }
  bool WaitForRelease() {
    absl::MutexLock lock(&mu_);
    const auto released = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) { return !released_.empty(); };
    return mu_.AwaitWithTimeout(absl::Condition(&released), absl::Seconds(10));
  }
  /// Progress messages since the `skip`th message.
  std::vector<v1::Progress> ProgressAfter(size_t skip) {
    std::vector<v1::Progress> progress;
    const auto messages = controller_.messages();
    for (size_t i = skip; i < messages.size(); ++i) {
      if (messages[i].has_progress()) progress.push_back(messages[i].progress());
    }
    return progress;
  }

  FakeController controller_;
  HeldTasks held_;
  size_t tasks_ = 0;
  absl::Mutex mu_;
  std::string released_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<RunningWorker> worker_;  // Last: it stops before what its handlers use.
};

TEST_F(WorkerRecovery, ALostStreamChangesNothing) {
  StartWorker();
  const auto task = StartTask("t");
  ASSERT_NE(task, nullptr);
  task->SendProgress({1, 2}, {-1.f, -2.f});
  ASSERT_TRUE(controller_.WaitFor([](const auto& m) { return m.has_progress(); }).has_value());
  const size_t before = controller_.messages().size();
  controller_.Drop();
  const auto hello = controller_.WaitForHello(2);
  ASSERT_TRUE(hello.has_value());
  ASSERT_EQ(hello->running_size(), 1);
  EXPECT_EQ(hello->running(0).task_token(), "t");
  EXPECT_EQ(hello->running(0).offset(), 2u);
  ASSERT_EQ(hello->roles_held_size(), 1);
  EXPECT_EQ(hello->roles_held(0).role(), "rollout");
  EXPECT_FALSE(task->cancelled());

  task->SendProgress({3, 4}, {-3.f, -4.f});
  task->Finish(v1::TaskResult());
  ASSERT_TRUE(controller_.WaitForResult("t").has_value());
  for (const v1::Progress& progress : ProgressAfter(before)) {
    EXPECT_TRUE(progress.offset() == 0 || progress.offset() == 2);  // Whole chunks only.
    EXPECT_EQ(progress.tokens_size(), 2);
  }
}

TEST_F(WorkerRecovery, AResultIsSentAgainUntilItIsAcknowledged) {
  StartWorker();
  controller_.Change([](FakeController::Options& o) { o.acknowledge_results = false; });
  const auto task = StartTask("t");
  ASSERT_NE(task, nullptr);
  v1::TaskResult result;
  result.set_response_text("done");
  task->Finish(result);
  ASSERT_TRUE(controller_.WaitForResult("t").has_value());
  controller_.Change([](FakeController::Options& o) { o.acknowledge_results = true; });
  const size_t before = controller_.messages().size();
  controller_.Drop();
  const auto hello = controller_.WaitForHello(2);
  ASSERT_TRUE(hello.has_value());
  EXPECT_THAT(hello->unacknowledged(), Contains("t"));
  size_t seen = 0;
  const auto again = controller_.WaitFor([&](const v1::WorkerMessage& m) {
    return ++seen > before && m.has_result() && m.result().response_text() == "done";
  });
  ASSERT_TRUE(again.has_value());
  // Acknowledged now: the third Hello has nothing left. (The ack precedes the heartbeat's.)
  ASSERT_TRUE(controller_
                  .WaitFor([&, n = size_t{0}](const v1::WorkerMessage& m) mutable {
                    return ++n > seen && m.has_heartbeat();
                  })
                  .has_value());
  controller_.Drop();
  const auto third = controller_.WaitForHello(3);
  ASSERT_TRUE(third.has_value());
  EXPECT_THAT(third->unacknowledged(), Not(Contains("t")));
}

TEST_F(WorkerRecovery, FencesItselfWhenTheLeaseRunsOut) {
  controller_.Change([](FakeController::Options& o) { o.lease = absl::Milliseconds(300); });
  StartWorker();
  const auto task = StartTask("t");
  ASSERT_NE(task, nullptr);
  controller_.Change([](FakeController::Options& o) { o.acknowledge_heartbeats = false; });
  ASSERT_TRUE(WaitForRelease());
  EXPECT_TRUE(task->cancelled());
  task->Finish(v1::TaskResult());
  const auto hello = controller_.WaitForHello(2);
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(hello->running_size(), 0);
  EXPECT_EQ(hello->roles_held_size(), 0);
  EXPECT_THAT(hello->unacknowledged(), Not(Contains("t")));
}

// The controller counts the lease from the Hello. Here the Welcome comes after the lease's end: the
// worker fences itself at once, and no heartbeat renews what has ended.
TEST(WorkerLease, ALeaseCountsFromTheHello) {
  FakeController::Options options;
  options.lease = absl::Milliseconds(400);
  options.welcome_delay = absl::Milliseconds(500);
  FakeController controller(options);
  RunningWorker worker(controller);
  worker.Start();
  ASSERT_TRUE(controller.WaitForHello(1).has_value());
  controller.Change([](FakeController::Options& o) { o.welcome_delay = absl::ZeroDuration(); });
  EXPECT_TRUE(controller.WaitForHello(2).has_value()) << "it did not fence itself";
}

TEST(WorkerRestart, TheControllerComesBackWithALaterEpoch) {
  auto controller = std::make_unique<FakeController>();
  FakeController::Options options;
  options.port = controller->port();
  RunningWorker worker(*controller);
  worker->RegisterRole("reward", {}).IgnoreError();
  worker.Start();
  ASSERT_TRUE(controller->RunTask(MakeTask("a", "reward", "assign_role")).has_value());
  controller.reset();
  options.epoch = 2;
  controller = std::make_unique<FakeController>(options);
  const auto hello = controller->WaitForHello(1);
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(hello->epoch_seen(), 1u);
  ASSERT_EQ(hello->roles_held_size(), 1);
  EXPECT_TRUE(controller->RunTask(MakeTask("b", "reward", "release_role")).has_value());
}

TEST_F(WorkerRecovery, RefusesAnOlderEpoch) {
  controller_.Change([](FakeController::Options& o) { o.epoch = 5; });
  StartWorker();
  controller_.Change([](FakeController::Options& o) { o.epoch = 4; });
  controller_.Drop();
  const auto second = controller_.WaitForHello(2);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->epoch_seen(), 5u);
  ASSERT_TRUE(controller_.WaitForHello(3).has_value());  // The worker left and came back.
  EXPECT_FALSE((*worker_)->attached());
  controller_.Change([](FakeController::Options& o) { o.epoch = 6; });
  ASSERT_TRUE(controller_.WaitForHello(controller_.hello_count() + 1).has_value());
  const v1::Task task = MakeTask("late", "rollout", "release_role");
  EXPECT_TRUE(controller_.RunTask(task).has_value());
}

TEST_F(WorkerRecovery, IgnoresATaskOfAnOlderEpoch) {
  controller_.Change([](FakeController::Options& o) { o.epoch = 5; });
  StartWorker();
  v1::Task old = MakeTask("old", "rollout", "release_role");
  old.set_epoch(4);
  controller_.SendTask(old);
  ASSERT_TRUE(controller_.RunTask(MakeTask("new", "rollout", "release_role")).has_value());
  for (const auto& message : controller_.messages()) {
    EXPECT_FALSE(message.has_result() && message.result().task_token() == "old");
  }
}

TEST_F(WorkerRecovery, WelcomeTakesRolesAway) {
  StartWorker();
  v1::Welcome welcome;
  v1::RoleHeld* role = welcome.add_release();
  role->set_job("projects/default/jobs/test");
  role->set_role("rollout");
  controller_.SetWelcome(welcome);
  controller_.Drop();
  ASSERT_TRUE(WaitForRelease());
  controller_.Drop();
  const auto hello = controller_.WaitForHello(3);
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(hello->roles_held_size(), 0);
}

TEST_F(WorkerRecovery, ARunningTaskThatComesAgainIsNotRunTwice) {
  StartWorker();
  const auto task = StartTask("t");
  ASSERT_NE(task, nullptr);
  controller_.SendTask(MakeTask("t", "rollout", "generate"));
  const auto other = StartTask("u");  // Had "t" begun twice, it would stand in this place.
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->task().task_token(), "u");
}

TEST_F(WorkerRecovery, SaysNoHelloWhileItFencesItself) {
  controller_.Change([](FakeController::Options& o) { o.lease = absl::Milliseconds(300); });
  StartWorker();
  const auto task = StartTask("t");
  ASSERT_NE(task, nullptr);
  absl::Notification fencing, go_on;
  task->OnCancel([&] {
    fencing.Notify();
    go_on.WaitForNotification();
  });
  controller_.Change([](FakeController::Options& o) { o.acknowledge_heartbeats = false; });
  fencing.WaitForNotification();
  // A Hello now would list the role, which is about to go.
  EXPECT_FALSE(go_on.WaitForNotificationWithTimeout(absl::Milliseconds(400)));
  EXPECT_EQ(controller_.hello_count(), 1);
  go_on.Notify();
  task->Finish(v1::TaskResult());
  const auto hello = controller_.WaitForHello(2);
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(hello->roles_held_size(), 0);
  EXPECT_EQ(hello->running_size(), 0);
}

}  // namespace
}  // namespace baton
