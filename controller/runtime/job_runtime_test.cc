#include "controller/runtime/job_runtime.h"

#include <optional>
#include <string>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "controller/store/memory_store.h"
#include "gtest/gtest.h"

namespace baton::controller {
namespace {

v1::Job QueuedJob() {
  v1::Job job;
  job.set_name("projects/default/jobs/add");
  job.set_uid("1");
  v1::JobSpec& spec = *job.mutable_effective_spec();
  spec.set_kind(v1::JOB_KIND_RL);
  spec.mutable_resources()->set_rollout_workers(1);
  spec.mutable_resources()->set_reward_workers(1);
  job.mutable_dataflow()->add_score()->set_role("reward");
  return job;
}

// The queue may answer on another thread before the turn that asked it is over.
TEST(JobRuntimeTest, AJobCanBeFoundWhenItsFirstEffectsLeave) {
  boost::asio::thread_pool strands(1), disk(1);
  Gate gate;
  store::MemoryStore store;
  WorkerDirectory workers;
  const RealClock clock;
  std::shared_ptr<JobRuntime> job;
  std::optional<bool> visible;
  RuntimeContext context;
  context.strands = &strands;
  context.disk = &disk;
  context.gate = &gate;
  context.store = &store;
  context.workers = &workers;
  context.clock = &clock;
  context.need = [&](const std::string&, const NeedWorkers&) { visible = job->visible(); };
  job = std::make_shared<JobRuntime>(&context, JobCore(QueuedJob(), 1, context.core), 1,
                                     /*stored=*/false);
  EXPECT_FALSE(job->visible());
  absl::Notification started;
  job->Start({}, [&] { started.Notify(); });
  started.WaitForNotification();
  gate.Close();
  strands.join();
  disk.join();
  EXPECT_EQ(visible, true);
}

}  // namespace
}  // namespace baton::controller
