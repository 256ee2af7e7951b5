// A worker against an in-process controller: registration, tasks, order, cancellation, errors.
#include "sdk/worker/worker.h"

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/common/base/log.h"
#include "sdk/common/rpc/error.h"
#include "sdk/worker/fake_controller.h"
#include "tests/support/sdk/worker.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(WorkerOptions, EveryProblemIsNamed) {
  WorkerOptions options;
  options.worker_id = "Not Good";
  options.progress_tokens = 0;
  const auto worker = Worker::Create(options);
  EXPECT_EQ(worker.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(worker.status().message()), HasSubstr("controller"));
  EXPECT_THAT(std::string(worker.status().message()), HasSubstr("worker_id"));
  EXPECT_THAT(std::string(worker.status().message()), HasSubstr("progress_tokens"));
}

TEST(Worker, RefusesBadRegistrations) {
  auto worker = Worker::Create({"127.0.0.1:1"}).value();
  const TaskHandler handler = [](const v1::Task&, TaskContext&) { return v1::TaskResult(); };
  EXPECT_TRUE(worker->RegisterMethod("r", "m", 1, handler).ok());
  EXPECT_EQ(worker->RegisterMethod("r", "m", 1, handler).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(worker->RegisterMethod("r", "n", 0, handler).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(worker->RegisterMethod("r", "assign_role", 1, handler).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Worker, IntroducesItself) {
  FakeController controller;
  RunningWorker worker(controller, [](WorkerOptions& options) {
    options.worker_id = "w.1";
    options.features = {"seeded_sampling"};
  });
  worker
      ->RegisterMethod("reward", "compute_reward", 5,
                       [](const v1::Task&, TaskContext&) { return v1::TaskResult(); })
      .IgnoreError();
  worker.Start();
  const auto hello = controller.WaitForHello(1);
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(hello->worker_id(), "w.1");
  EXPECT_FALSE(hello->instance_id().empty());
  EXPECT_LE(hello->protocol_min(), 1);
  EXPECT_GE(hello->protocol_max(), 1);
  EXPECT_THAT(hello->features(), ElementsAre("seeded_sampling"));
  std::map<std::string, int> credits;
  for (const auto& method : hello->methods()) credits[method.method()] = method.credits();
  EXPECT_EQ(credits, (std::map<std::string, int>{
                         {"assign_role", 1}, {"compute_reward", 5}, {"release_role", 1}}));
}

TEST(Worker, RunsATaskOnceItsRoleIsAssigned) {
  FakeController controller;
  RunningWorker worker(controller);
  worker
      ->RegisterMethod("reward", "compute_reward", 5,
                       [](const v1::Task& task, TaskContext&) {
                         v1::TaskResult result;
                         (*result.mutable_metrics())["reward"] =
                             task.score().trajectory().response_text() == "yes" ? 1 : 0;
                         return result;
                       })
      .IgnoreError();
  worker.Start();
  v1::Task task = MakeTask("early", "reward", "compute_reward");
  task.mutable_score()->mutable_trajectory()->set_response_text("yes");
  auto result = controller.RunTask(task);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(ErrorReason(FromProto(result->status())), "ROLE_NOT_HELD");

  result = controller.RunTask(MakeTask("assign", "reward", "assign_role"));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status().code(), 0);
  task.set_task_token("late");
  result = controller.RunTask(task);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status().code(), 0) << result->status().message();
  EXPECT_EQ(result->metrics().at("reward"), 1);

  controller.RunTask(MakeTask("release", "reward", "release_role"));
  task.set_task_token("after");
  result = controller.RunTask(task);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(ErrorReason(FromProto(result->status())), "ROLE_NOT_HELD");
}

TEST(Worker, ReportsFailuresAsResults) {
  FakeController controller;
  RunningWorker worker(controller);
  const TaskHandler throws = [](const v1::Task&, TaskContext&) -> absl::StatusOr<v1::TaskResult> {
    throw std::runtime_error("no\xff good");
  };
  worker->RegisterMethod("r", "throws", 1, throws, {/*needs_role=*/false}).IgnoreError();
  worker.Start();
  auto result = controller.RunTask(MakeTask("a", "r", "throws"));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status().code(), static_cast<int>(absl::StatusCode::kInternal));
  EXPECT_THAT(result->status().message(), HasSubstr("r.throws threw an exception: no\xef\xbf\xbd"));
  result = controller.RunTask(MakeTask("b", "r", "unheard_of"));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(ErrorReason(FromProto(result->status())), "UNKNOWN_METHOD");
  result = controller.RunTask(MakeTask("c", "q", "throws"));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(ErrorReason(FromProto(result->status())), "UNKNOWN_ROLE");
}

TEST(Worker, StreamsAnAsynchronousTaskAndCancelsIt) {
  FakeController controller;
  RunningWorker worker(controller, [](WorkerOptions& options) { options.progress_tokens = 2; });
  worker
      ->RegisterAsyncMethod("rollout", "generate", 4,
                            [](std::shared_ptr<TaskContext> context) {
                              context->SendProgress({1, 2}, {-1.f, -2.f});
                              context->OnCancel([context] {
                                v1::TaskResult result;
                                result.set_finish_reason("cancelled");
                                context->Finish(result);
                              });
                            },
                            {/*needs_role=*/false})
      .IgnoreError();
  worker.Start();
  controller.SendTask(MakeTask("t", "rollout", "generate"));
  const auto progress = controller.WaitFor([](const auto& m) { return m.has_progress(); });
  ASSERT_TRUE(progress.has_value());
  EXPECT_THAT(progress->progress().tokens(), ElementsAre(1, 2));
  v1::ControllerMessage cancel;
  cancel.mutable_cancel()->set_task_token("t");
  controller.Send(cancel);
  const auto result = controller.WaitForResult("t");
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->finish_reason(), "cancelled");
}

TEST(Worker, GroupCommandsRunInTheirOrder) {
  FakeController controller;
  RunningWorker worker(controller);
  std::mutex mu;
  std::vector<std::string> ran;
  worker
      ->RegisterMethod("actor", "update", 4,
                       [&](const v1::Task& task, TaskContext&) {
                         const std::lock_guard<std::mutex> lock(mu);
                         ran.push_back(task.task_token());
                         return v1::TaskResult();
                       })
      .IgnoreError();
  worker.Start();
  auto ordered = [](const std::string& token, const std::string& method, uint64_t sequence) {
    v1::Task task = MakeTask(token, "actor", method);
    task.mutable_order()->set_pool("p");
    task.mutable_order()->set_group_epoch(1);
    task.mutable_order()->set_sequence(sequence);
    return task;
  };
  controller.SendTask(ordered("one", "assign_role", 1));
  controller.SendTask(ordered("three", "update", 3));
  ASSERT_TRUE(controller.RunTask(ordered("two", "update", 2)).has_value());
  ASSERT_TRUE(controller.WaitForResult("three").has_value());
  const std::lock_guard<std::mutex> lock(mu);
  EXPECT_THAT(ran, ElementsAre("two", "three"));
}

TEST(Worker, AReleasedPoolStartsAnew) {
  FakeController controller;
  RunningWorker worker(controller);
  worker->RegisterRole("actor", {}).IgnoreError();
  worker.Start();
  const auto assign = [&](const std::string& token, uint64_t group_epoch) {
    v1::Task task = MakeTask(token, "actor", "assign_role");
    task.mutable_order()->set_pool("p");
    task.mutable_order()->set_group_epoch(group_epoch);
    return controller.RunTask(task).value_or(v1::TaskResult()).status();
  };
  EXPECT_EQ(assign("a", 3).code(), 0);
  EXPECT_EQ(ErrorReason(FromProto(assign("b", 2))), "STALE_GROUP_EPOCH");
  ASSERT_TRUE(controller.RunTask(MakeTask("c", "actor", "release_role")).has_value());
  EXPECT_EQ(assign("d", 1).code(), 0);  // Another life of a job of this name.
}

TEST(Worker, ALateReleaseLeavesTheNextJobAlone) {
  FakeController controller;
  RunningWorker worker(controller);
  worker
      ->RegisterMethod("r", "m", 1, [](const v1::Task&, TaskContext&) { return v1::TaskResult(); })
      .IgnoreError();
  worker.Start();
  v1::Task of_old_job = MakeTask("a", "r", "assign_role");
  of_old_job.set_job("projects/default/jobs/old");
  ASSERT_TRUE(controller.RunTask(of_old_job).has_value());
  ASSERT_TRUE(controller.RunTask(MakeTask("b", "r", "assign_role")).has_value());
  of_old_job.set_task_token("c");
  of_old_job.set_method("release_role");
  ASSERT_TRUE(controller.RunTask(of_old_job).has_value());
  const auto result = controller.RunTask(MakeTask("d", "r", "m"));
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->status().code(), 0) << result->status().message();
}

// A worker that was given back without a word still has the roles that it had.
TEST(Worker, AnotherJobsRolesAreReleasedByTheNextAssignment) {
  absl::Mutex mu;
  std::vector<std::string> released;
  FakeController controller;
  RunningWorker worker(controller);
  for (const char* name : {"r", "s"}) {
    RoleOptions role;
    role.on_release = [&, name](const std::string& job) {
      absl::MutexLock lock(&mu);
      released.push_back(absl::StrCat(name, " of ", job));
    };
    ASSERT_TRUE(worker->RegisterRole(name, role).ok());
  }
  worker.Start();
  for (const char* name : {"r", "s"}) {
    v1::Task of_old_job = MakeTask(absl::StrCat("old-", name), name, "assign_role");
    of_old_job.set_job("projects/default/jobs/old");
    ASSERT_TRUE(controller.RunTask(of_old_job).has_value());
  }
  ASSERT_TRUE(controller.RunTask(MakeTask("new", "r", "assign_role")).has_value());
  absl::MutexLock lock(&mu);
  const auto both = [&] { return released.size() == 2; };
  ASSERT_TRUE(mu.AwaitWithTimeout(absl::Condition(&both), absl::Seconds(20)));
  EXPECT_THAT(released, ::testing::UnorderedElementsAre("r of projects/default/jobs/old",
                                                        "s of projects/default/jobs/old"));
}

TEST(Worker, HandlersOfARoleWithThreadsOverlap) {
  FakeController controller;
  RunningWorker worker(controller);
  RoleOptions role;
  role.threads = 2;
  worker->RegisterRole("r", role).IgnoreError();
  absl::Notification second_began;
  worker
      ->RegisterMethod("r", "m", 2,
                       [&](const v1::Task& task, TaskContext&) {
                         if (task.task_token() == "two") second_began.Notify();
                         second_began.WaitForNotificationWithTimeout(absl::Seconds(10));
                         return v1::TaskResult();
                       },
                       {/*needs_role=*/false})
      .IgnoreError();
  worker.Start();
  controller.SendTask(MakeTask("one", "r", "m"));
  controller.SendTask(MakeTask("two", "r", "m"));
  EXPECT_TRUE(controller.WaitForResult("one").has_value());
  EXPECT_TRUE(second_began.HasBeenNotified());
}

TEST(Worker, ShipsItsLog) {
  FakeController controller;
  RunningWorker worker(controller, [](WorkerOptions& options) { options.forward_log = true; });
  worker.Start();
  ASSERT_TRUE(controller.WaitForHello(1).has_value());
  Log(LogLevel::kInfo, "hello from the worker", {{"step", 3}});
  const auto log = controller.WaitFor([](const auto& m) {
    return m.has_log() && m.log().message() == "hello from the worker step=3";
  });
  ASSERT_TRUE(log.has_value());
  EXPECT_EQ(log->log().level(), "INFO");
}

// The trouble of role "reward" that was told last, once it is `message`.
bool WaitForTrouble(FakeController& controller, const std::string& message, size_t times = 1) {
  return controller
      .WaitFor([&, seen = size_t{0}](const v1::WorkerMessage& m) mutable {
        const bool same = m.has_trouble() && m.trouble().role() == "reward" &&
                          m.trouble().job() == "projects/default/jobs/test" &&
                          m.trouble().message() == message;
        return same && ++seen >= times;
      })
      .has_value();
}

TEST(Worker, TellsWhatKeepsARoleFromItsWorkWhileItIsHeld) {
  FakeController controller;
  RunningWorker worker(controller);
  RoleOptions role;
  role.on_assign = [&](const v1::Task&, TaskContext&) {
    worker->ReportTrouble("reward", "it does not start");  // before the role is held
    return v1::TaskResult();
  };
  ASSERT_TRUE(worker->RegisterRole("reward", role).ok());
  worker->ReportTrouble("reward", "without a job");
  worker.Start();
  ASSERT_TRUE(controller.RunTask(MakeTask("1", "reward", "assign_role")).has_value());
  EXPECT_TRUE(WaitForTrouble(controller, "it does not start"));
  worker->ReportTrouble("reward", std::string(10000, 'x') + "\xC3");
  EXPECT_TRUE(WaitForTrouble(controller, std::string(8192 - 17, 'x') + "… (10003 bytes)"));
  worker->ReportTrouble("reward", "it says \xFF");
  EXPECT_TRUE(WaitForTrouble(controller, "it says \xEF\xBF\xBD"));
  controller.Drop();
  ASSERT_TRUE(controller.WaitForHello(2).has_value());
  EXPECT_TRUE(WaitForTrouble(controller, "it says \xEF\xBF\xBD", 2)) << "told again";
  worker->ReportTrouble("reward", "");
  EXPECT_TRUE(WaitForTrouble(controller, ""));
  ASSERT_TRUE(controller.RunTask(MakeTask("2", "reward", "release_role")).has_value());
  worker->ReportTrouble("reward", "of a job that is gone");
  controller.Drop();
  ASSERT_TRUE(controller.WaitForHello(3).has_value());
  for (const v1::WorkerMessage& message : controller.messages()) {
    EXPECT_EQ(message.trouble().message().find("of "), std::string::npos);
  }
}

// A handler that never returns holds its role for good. Nothing but the end of the process ends it.
TEST(Worker, ARoleThatDoesNotEndIsReportedOnce) {
  for (const char* method : {"release_role", "assign_role"}) {
    FakeController controller;
    absl::Mutex mu;
    std::vector<std::string> stuck;
    RunningWorker worker(controller, [&](WorkerOptions& options) {
      options.role_end_limit = absl::Milliseconds(100);
      options.on_stuck = [&](absl::string_view what) {
        absl::MutexLock lock(&mu);
        stuck.emplace_back(what);
      };
    });
    absl::Notification begun, let_go;
    worker
        ->RegisterMethod("reward", "compute_reward", 1,
                         [&](const v1::Task&, TaskContext&) {
                           begun.Notify();
                           let_go.WaitForNotification();
                           return v1::TaskResult();
                         })
        .IgnoreError();
    worker.Start();
    ASSERT_TRUE(controller.RunTask(MakeTask("1", "reward", "assign_role")).has_value());
    controller.SendTask(MakeTask("2", "reward", "compute_reward"));
    ASSERT_TRUE(begun.WaitForNotificationWithTimeout(absl::Seconds(10)));
    v1::Task next = MakeTask("3", "reward", method);
    if (next.method() == "assign_role") next.set_job("projects/other/jobs/next");
    controller.SendTask(next);
    {
      absl::MutexLock lock(&mu);
      const auto told = [&] { return !stuck.empty(); };
      ASSERT_TRUE(mu.AwaitWithTimeout(absl::Condition(&told), absl::Seconds(10))) << method;
      EXPECT_EQ(stuck[0],
                absl::StrCat("what this worker did did not end within 100ms: role reward, "
                             "for ",
                             method, " of ", next.job()));
    }
    let_go.Notify();
    EXPECT_TRUE(controller.WaitForResult("3").has_value());
    absl::MutexLock lock(&mu);
    EXPECT_EQ(stuck.size(), 1u);
  }
}

// However long a role takes to be taken on, and however long it works, it is not stuck.
TEST(Worker, ARoleThatWorksIsNotStuck) {
  FakeController controller;
  std::atomic<int> stuck{0};
  RunningWorker worker(controller, [&](WorkerOptions& options) {
    options.role_end_limit = absl::Milliseconds(100);
    options.on_stuck = [&](absl::string_view) { ++stuck; };
  });
  absl::Notification begun, let_go;
  RoleOptions role;
  role.on_assign = [&](const v1::Task&, TaskContext&) {
    begun.Notify();
    let_go.WaitForNotification();
    return v1::TaskResult();
  };
  ASSERT_TRUE(worker->RegisterRole("reward", role).ok());
  worker.Start();
  controller.SendTask(MakeTask("1", "reward", "assign_role"));
  ASSERT_TRUE(begun.WaitForNotificationWithTimeout(absl::Seconds(10)));
  // The watch looks at the role between two heartbeats: several of them pass.
  const auto beats = [&] {
    const auto messages = controller.messages();
    return std::count_if(messages.begin(), messages.end(),
                         [](const auto& message) { return message.has_heartbeat(); });
  };
  const auto enough = beats() + 10;
  const absl::Time deadline = absl::Now() + absl::Seconds(10);
  while (beats() < enough && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_GE(beats(), enough);
  EXPECT_EQ(stuck, 0);
  let_go.Notify();
  EXPECT_TRUE(controller.WaitForResult("1").has_value());
}

TEST(Worker, DropsTroubleReportedBetweenTwoJobs) {
  FakeController controller;
  RunningWorker worker(controller);
  ASSERT_TRUE(worker->RegisterRole("reward", {}).ok());
  worker.Start();
  ASSERT_TRUE(controller.RunTask(MakeTask("1", "reward", "assign_role")).has_value());
  ASSERT_TRUE(controller.RunTask(MakeTask("2", "reward", "release_role")).has_value());
  worker->ReportTrouble("reward", "of the job before");
  ASSERT_TRUE(controller.RunTask(MakeTask("3", "reward", "assign_role")).has_value());
  // The role's message is sent before this result.
  ASSERT_TRUE(controller.RunTask(MakeTask("4", "reward", "unknown_method")).has_value());
  worker->ReportTrouble("reward", "new");
  EXPECT_TRUE(WaitForTrouble(controller, "new"));
  for (const v1::WorkerMessage& message : controller.messages()) {
    EXPECT_EQ(message.trouble().message().find("before"), std::string::npos);
  }
}

// One of two roles of a pool is taken away: the pool's commands go on where they were.
TEST(Worker, APoolKeepsItsSequenceWhileOneOfItsRolesIsHeld) {
  FakeController controller;
  RunningWorker worker(controller);
  for (const char* role : {"actor", "rollout"}) ASSERT_TRUE(worker->RegisterRole(role, {}).ok());
  worker.Start();
  uint64_t sequence = 0;
  for (const char* role : {"actor", "rollout"}) {
    v1::Task task = MakeTask(role, role, "assign_role");
    task.mutable_order()->set_pool("p");
    task.mutable_order()->set_group_epoch(1);
    task.mutable_order()->set_sequence(++sequence);
    ASSERT_TRUE(controller.RunTask(task).has_value());
  }
  v1::Welcome welcome;
  v1::RoleHeld* taken = welcome.add_release();
  taken->set_job("projects/default/jobs/test");
  taken->set_role("actor");
  controller.SetWelcome(welcome);
  controller.Drop();
  ASSERT_TRUE(controller.WaitForHello(2).has_value());
  ASSERT_TRUE(controller.RunTask(MakeTask("after", "rollout", "unknown_method")).has_value());
  controller.Drop();
  const auto hello = controller.WaitForHello(3);
  ASSERT_TRUE(hello.has_value());
  ASSERT_EQ(hello->roles_held_size(), 1);
  EXPECT_EQ(hello->roles_held(0).role(), "rollout");
  EXPECT_EQ(hello->roles_held(0).last_sequence(), 2u);
}

TEST(Worker, GivesUpWhenItIsRefusedForGood) {
  FakeController::Options options;
  options.token = "secret";
  FakeController controller(options);
  auto worker = Worker::Create({controller.address()}).value();
  const absl::Status status = worker->Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(status.message()), HasSubstr(controller.address()));
}

TEST(Worker, PresentsItsToken) {
  FakeController::Options options;
  options.token = "secret";
  FakeController controller(options);
  RunningWorker worker(controller, [](WorkerOptions& o) { o.token = "secret"; });
  worker.Start();
  EXPECT_TRUE(controller.WaitForHello(1).has_value());
}

TEST(Worker, RefusesAControllerOfAnotherProtocol) {
  FakeController::Options options;
  options.protocol = 9;
  FakeController controller(options);
  auto worker = Worker::Create({controller.address()}).value();
  EXPECT_THAT(std::string(worker->Run().message()), HasSubstr("chose protocol 9"));
}

}  // namespace
}  // namespace baton
