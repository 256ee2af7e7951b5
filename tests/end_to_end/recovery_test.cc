// Processes die in the middle of a job; the weights at the end are those of an undisturbed run.
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/cluster_testing.h"

namespace baton::testing {
namespace {

using ::testing::HasSubstr;
using v1::Job;

constexpr int kSteps = 6;

void Slow(fake::FakeWorkerOptions& options) { options.token_delay = absl::Microseconds(300); }

void AddSlowWorkers(TestCluster& cluster) {
  cluster.AddWorker("actor-0", "actor");
  cluster.AddWorker("rollout-0", "rollout", Slow);
  cluster.AddWorker("rollout-1", "rollout", Slow);
  cluster.AddWorker("reward-0", "reward");
}

const std::string& UndisturbedWeights() {
  static const std::string* const weights = [] {
    TestCluster cluster;
    cluster.AddStandardWorkers();
    EXPECT_TRUE(cluster.Create(cluster.RlSpec(kSteps), "rl").ok());
    EXPECT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");
    return new std::string(cluster.FinalWeights("rl"));
  }();
  return *weights;
}

// What must be equal: the hash of the weights. Versions differ after a recovery.
std::string Hash(const std::string& weights_json) {
  const size_t at = weights_json.find("weights");
  return at == std::string::npos
             ? weights_json
             : weights_json.substr(at, weights_json.find_first_of(",}", at) - at);
}

class RecoveryTest : public ::testing::Test {
 protected:
  void Begin() {
    AddSlowWorkers(cluster_);
    ASSERT_TRUE(cluster_.Create(cluster_.RlSpec(kSteps), "rl").ok());
    ASSERT_TRUE(cluster_.WaitForStep("rl", 3)) << cluster_.Why("rl");
  }
  void ExpectTheSameEnd() {
    ASSERT_TRUE(cluster_.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster_.Why("rl");
    EXPECT_EQ(Hash(cluster_.FinalWeights("rl")), Hash(UndisturbedWeights()));
    EXPECT_THAT(UndisturbedWeights(), HasSubstr("{"));
  }

  TestCluster cluster_{absl::Milliseconds(500)};
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

TEST_F(RecoveryTest, TheControllerRestartsAndTheJobGoesOn) {
  Begin();
  cluster_.StopController();
  cluster_.StartController();
  ExpectTheSameEnd();
  const auto events = cluster_.Events("rl");
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].revision(), static_cast<int64_t>(i) + 1);  // no gap, no repeat
  }
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
