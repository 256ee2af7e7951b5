// A whole job on the shipped threads, with workers and callers on threads of their own. The thread
// sanitizer runs it, so it links no gRPC.
#include <atomic>
#include <latch>
#include <memory>
#include <thread>

#include "gtest/gtest.h"
#include "tests/support/controller/small_job.h"

namespace baton::controller {
namespace {

TEST(JobRuntimeThreadsTest, AJobRunsWhileItIsAskedAndTold) {
  boost::asio::thread_pool disk(2);
  Gate gate;
  AsioExecutors executors({2, 1, 1}, &gate, &disk);
  store::MemoryStore store;
  RealClock clock;
  FakeJobFiles files(SmallData());
  auto sink = std::make_shared<EndSink>();
  std::shared_ptr<JobRuntime> job;
  RuntimeContext context;
  {
    WillingWorkers workers;
    context.executors = &executors;
    context.clock = &clock;
    context.store = &store;
    context.files = &files;
    context.workers = &workers;
    context.queue = &workers;
    context.kept = {1000, 1000, 1000};
    job = std::make_shared<JobRuntime>(&context, JobCore(SmallJob(), 1, context.core), 1, false);
    workers.Serve(job);
    const auto subscription = job->Watch(0, sink);
    const auto started = std::make_shared<std::latch>(1);
    job->Start({}, [started] { started->count_down(); });
    started->wait();
    std::atomic<bool> over{false};
    std::thread caller([&] {
      while (!over) {
        job->Tick();
        job->Explain(
            [](const absl::StatusOr<v1::ExplainJobResponse>& why) { EXPECT_TRUE(why.ok()); });
        EXPECT_EQ(job->Snapshot().name(), job->name());
        const auto answered = std::make_shared<std::latch>(1);
        job->Describe([answered](const absl::StatusOr<v1::Job>& described) {
          EXPECT_TRUE(described.ok());
          answered->count_down();
        });
        answered->wait();
      }
    });
    sink->WaitForEnd();
    over = true;
    caller.join();
    gate.Close();
    executors.Join();
    disk.join();
  }
  EXPECT_EQ(job->state(), v1::Job::STATE_SUCCEEDED) << job->Brief().error().message();
  EXPECT_EQ(job->Brief().step(), kSmallJobSteps);
  EXPECT_TRUE(sink->in_order());
  EXPECT_EQ(files.checkpoints().count(kSmallJobSteps), 1u);
  EXPECT_EQ(files.records(), kSmallJobSteps * 4u * 2u);
}

}  // namespace
}  // namespace baton::controller
