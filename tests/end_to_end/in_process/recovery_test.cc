// Processes die in the middle of a job; the weights at the end are those of an undisturbed run.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/in_process/undisturbed.h"

namespace baton::testing {
namespace {

using ::testing::HasSubstr;
using v1::Job;

void Slow(fake::FakeWorkerOptions& options) { options.token_delay = absl::Microseconds(300); }

void AddSlowWorkers(TestCluster& cluster) {
  cluster.AddWorker("actor-0", "actor");
  cluster.AddWorker("rollout-0", "rollout", Slow);
  cluster.AddWorker("rollout-1", "rollout", Slow);
  cluster.AddWorker("reward-0", "reward");
}

class RecoveryTest : public ::testing::Test {
 protected:
  explicit RecoveryTest(absl::Duration lease = absl::Milliseconds(500)) : cluster_(lease) {}

  void Begin() {
    AddSlowWorkers(cluster_);
    ASSERT_TRUE(cluster_.Create(cluster_.RlSpec(kSteps), "rl").ok());
    ASSERT_TRUE(cluster_.WaitForStep("rl", 3)) << cluster_.Why("rl");
  }
  void ExpectTheSameEnd() {
    ASSERT_TRUE(cluster_.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster_.Why("rl");
    EXPECT_EQ(WeightsHash(cluster_.FinalWeights("rl")), UndisturbedHash());
  }

  TestCluster cluster_;
};

// Workers keep their roles however long this machine takes to begin a controller.
class ControllerRestartTest : public RecoveryTest {
 protected:
  ControllerRestartTest() : RecoveryTest(absl::Seconds(4)) {}
};

TEST_F(RecoveryTest, ARolloutDiesAndIsReplaced) {
  Begin();
  cluster_.KillWorker("rollout-1");
  cluster_.AddWorker("rollout-2", "rollout");
  ExpectTheSameEnd();
}

TEST_F(RecoveryTest, ARolloutDiesAndTheOtherGoesOnAlone) {
  Begin();
  cluster_.KillWorker("rollout-0");
  ExpectTheSameEnd();
}

TEST_F(RecoveryTest, TheRewardDiesAndIsReplaced) {
  Begin();
  cluster_.KillWorker("reward-0");
  cluster_.AddWorker("reward-1", "reward");
  ExpectTheSameEnd();
}

TEST_F(RecoveryTest, TheTrainerDiesAndItsStepsAreRedone) {
  Begin();
  cluster_.KillWorker("actor-0");
  cluster_.AddWorker("actor-1", "actor");
  ExpectTheSameEnd();
}

TEST_F(ControllerRestartTest, TheJobGoesOn) {
  Begin();
  cluster_.StopController();
  cluster_.StartController();
  ExpectTheSameEnd();
  const auto events = cluster_.Events("rl");
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].revision(), static_cast<int64_t>(i) + 1);  // no gap, no repeat
  }
}

// Some bytes of every record of the job's experience log change while its controller is down:
// responses that were not consumed yet are generated again, with the same prompt indices.
TEST_F(ControllerRestartTest, PayloadsThatAreLostAreGeneratedAgain) {
  Begin();
  cluster_.KillWorker("reward-0");  // so that the step waits for its scores
  const auto generated = [&] {
    v1::ExplainJobRequest request;
    request.set_name("projects/default/jobs/rl");
    v1::ExplainJobResponse why;
    grpc::ClientContext context;
    if (!cluster_.stub().ExplainJob(&context, request, &why).ok()) return false;
    return std::any_of(why.nodes().begin(), why.nodes().end(), [](const v1::NodeStatus& node) {
      return node.node() == "generate" && node.total() > 0 && node.done() == node.total();
    });
  };
  ASSERT_TRUE(WaitFor(generated)) << cluster_.Why("rl");
  cluster_.StopController();
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(cluster_.folder() + "/jobs/default/rl/experience")) {
    ++files;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    for (uint64_t at = 20; at < entry.file_size(); at += 40) {
      file.seekp(static_cast<std::streamoff>(at));
      file.put('#');
    }
  }
  ASSERT_GT(files, 0);
  cluster_.StartController();
  cluster_.AddWorker("reward-1", "reward");
  ExpectTheSameEnd();
  const auto events = cluster_.Events("rl");
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const v1::JobEvent& event) {
    return event.type() == "warning" &&
           absl::StrContains(event.message(), "generated again with the same sampling key");
  }));
}

// The store is lost with its machine; a folder is left of the job. It goes on where it stood, and
// ends with the weights of a job that never stopped.
TEST_F(RecoveryTest, ACheckpointsFolderAloneGoesOnUnderAnotherController) {
  cluster_.AddStandardWorkers();
  v1::JobSpec spec = cluster_.RlSpec(kSteps);
  spec.mutable_trainer()->set_keep_optimizer("all");
  ASSERT_TRUE(cluster_.Create(spec, "rl").ok());
  ASSERT_TRUE(cluster_.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster_.Why("rl");
  const std::string folder = cluster_.folder() + "/jobs/default/rl/checkpoints/step-4";
  ASSERT_TRUE(std::filesystem::exists(folder)) << folder;

  TestCluster other;  // without the first one's data root
  other.AddStandardWorkers();
  v1::CreateJobRequest request;
  request.set_job_id("again");
  request.set_checkpoint(folder);
  const auto create = [&] {
    grpc::ClientContext context;
    v1::Job job;
    return FromGrpc(other.stub().CreateJob(&context, request, &job));
  };
  ASSERT_TRUE(create().ok());
  ASSERT_TRUE(other.WaitForState("again", Job::STATE_SUCCEEDED)) << other.Why("again");
  EXPECT_EQ(WeightsHash(other.FinalWeights("again")), UndisturbedHash());
  const auto events = other.Events("again");
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].revision(), 1);
  EXPECT_EQ(events[0].state(), Job::STATE_QUEUED);
  EXPECT_EQ(events[0].step(), 4);

  EXPECT_EQ(ErrorReason(create()), "JOB_EXISTS");
  request.set_job_id("none");
  request.set_checkpoint(cluster_.folder());
  const absl::Status none = create();
  EXPECT_EQ(ErrorReason(none), "CHECKPOINT_FOLDER");
  EXPECT_THAT(std::string(none.message()), HasSubstr("is not a checkpoint: it has no job.json"));
  EXPECT_FALSE(std::filesystem::exists(other.folder() + "/jobs/default/none"));
  request.set_checkpoint(folder);
  request.mutable_spec();
  EXPECT_EQ(create().code(), absl::StatusCode::kInvalidArgument);
}

// baton.db alone is lost, in the middle of the job, and the workers live on. The job comes back
// under its name, in its folder (lost_store_test.cc does it with the programs).
TEST_F(RecoveryTest, TheStoreIsLostAndTheJobGoesOnFromItsFolder) {
  Begin();
  const std::string uid = cluster_.Get("rl").uid();
  cluster_.StopController();
  for (const char* file : {"baton.db", "baton.db-wal", "baton.db-shm"}) {
    std::filesystem::remove(cluster_.folder() + "/" + file);
  }
  cluster_.StartController();
  EXPECT_THAT(cluster_.Get("rl").error().message(), HasSubstr("no job '"));
  EXPECT_EQ(ErrorReason(cluster_.Create(cluster_.RlSpec(kSteps), "rl").status()), "JOB_FOLDER");
  v1::CreateJobRequest request;
  request.set_checkpoint(cluster_.folder() + "/jobs/default/rl");
  v1::Job job;
  grpc::ClientContext context;
  const absl::Status resumed = FromGrpc(cluster_.stub().CreateJob(&context, request, &job));
  ASSERT_TRUE(resumed.ok()) << resumed;
  EXPECT_EQ(job.name(), "projects/default/jobs/rl");
  EXPECT_NE(job.uid(), uid);
  EXPECT_GE(job.step(), 2);  // its newest checkpoint
  ExpectTheSameEnd();
}

TEST_F(RecoveryTest, ADamagedCheckpointIsNotUsed) {
  AddSlowWorkers(cluster_);
  ASSERT_TRUE(cluster_.Create(cluster_.RlSpec(200), "rl").ok());
  ASSERT_TRUE(cluster_.WaitForStep("rl", 1)) << cluster_.Why("rl");
  ASSERT_TRUE(cluster_.Call("rl", &v1::JobService::Stub::PauseJob).ok());
  ASSERT_TRUE(cluster_.WaitForState("rl", Job::STATE_PAUSED)) << cluster_.Why("rl");
  const std::string path = cluster_.WeightsFile("rl");
  ASSERT_EQ(cluster_.FinalWeights("rl").rfind("{", 0), 0u) << path;
  std::ofstream(path) << "{\"weights\":\"0000000000000000\"}\n";
  ASSERT_TRUE(cluster_.Call("rl", &v1::JobService::Stub::ResumeJob).ok());
  ASSERT_TRUE(cluster_.WaitForState("rl", Job::STATE_FAILED)) << cluster_.Why("rl");
  EXPECT_THAT(cluster_.Get("rl").error().message(), HasSubstr(path + " is not what was saved"));
}

}  // namespace
}  // namespace baton::testing
