// Tests of what a user does to a job while it runs.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/in_process/cluster_testing.h"

namespace baton::testing {
namespace {

using ::testing::HasSubstr;
using v1::Job;

TEST(SteeringTest, ACancelledJobGivesItsWorkersToTheNext) {
  TestCluster cluster;
  cluster.AddStandardWorkers();
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(100000), "endless").ok());
  ASSERT_TRUE(cluster.WaitForStep("endless", 2));
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(2), "next").ok());
  EXPECT_THAT(cluster.Why("next"), HasSubstr("1 actor worker"));
  EXPECT_TRUE(cluster.Call("endless", &v1::JobService::Stub::CancelJob).ok());
  EXPECT_TRUE(cluster.WaitForState("endless", Job::STATE_CANCELLED)) << cluster.Why("endless");
  EXPECT_TRUE(cluster.WaitForState("next", Job::STATE_SUCCEEDED)) << cluster.Why("next");
}

TEST(SteeringTest, APauseIsNoInterruption) {
  TestCluster undisturbed;
  undisturbed.AddStandardWorkers();
  ASSERT_TRUE(undisturbed.Create(undisturbed.RlSpec(6), "rl").ok());
  ASSERT_TRUE(undisturbed.WaitForState("rl", Job::STATE_SUCCEEDED));
  TestCluster cluster;
  cluster.AddStandardWorkers();
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(6), "rl").ok());
  ASSERT_TRUE(cluster.WaitForStep("rl", 1));
  if (cluster.Call("rl", &v1::JobService::Stub::PauseJob).ok()) {
    ASSERT_TRUE(WaitFor([&] {
      const auto state = cluster.Get("rl").state();
      return state == Job::STATE_PAUSED || state == Job::STATE_SUCCEEDED;
    }));
    if (cluster.Get("rl").state() == Job::STATE_PAUSED) {
      EXPECT_TRUE(cluster.Call("rl", &v1::JobService::Stub::ResumeJob).ok());
    }
  }
  ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  const std::string a = undisturbed.FinalWeights("rl"), b = cluster.FinalWeights("rl");
  EXPECT_EQ(a.substr(a.find("weights"), 40), b.substr(b.find("weights"), 40));
}

TEST(SteeringTest, TwoJobsRunSideBySide) {
  TestCluster cluster;
  for (int i = 0; i < 2; ++i) {
    cluster.AddWorker(absl::StrCat("actor-", i), "actor");
    cluster.AddWorker(absl::StrCat("reward-", i), "reward");
  }
  for (int i = 0; i < 4; ++i) cluster.AddWorker(absl::StrCat("rollout-", i), "rollout");
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(4), "a").ok());
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(4), "b").ok());
  EXPECT_TRUE(cluster.WaitForState("a", Job::STATE_SUCCEEDED)) << cluster.Why("a");
  EXPECT_TRUE(cluster.WaitForState("b", Job::STATE_SUCCEEDED)) << cluster.Why("b");
}

TEST(SteeringTest, OneRequestIdMakesOneJob) {
  TestCluster cluster;
  const auto first = cluster.Create(cluster.RlSpec(1), "", "request-1");
  const auto again = cluster.Create(cluster.RlSpec(1), "", "request-1");
  ASSERT_TRUE(first.ok() && again.ok());
  EXPECT_EQ(first->uid(), again->uid());
  const auto taken = cluster.Create(cluster.RlSpec(1), first->name().substr(22));
  EXPECT_EQ(ErrorReason(taken.status()), "JOB_EXISTS") << taken.status();
}

TEST(SteeringTest, OnlyAFinishedJobIsDeleted) {
  TestCluster cluster;
  cluster.AddStandardWorkers();
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(100000), "rl").ok());
  EXPECT_EQ(ErrorReason(cluster.Call("rl", &v1::JobService::Stub::DeleteJob)), "JOB_ACTIVE");
  ASSERT_TRUE(cluster.Call("rl", &v1::JobService::Stub::CancelJob).ok());
  ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_CANCELLED)) << cluster.Why("rl");
  EXPECT_TRUE(cluster.Call("rl", &v1::JobService::Stub::DeleteJob).ok());
  EXPECT_EQ(ErrorReason(cluster.Call("rl", &v1::JobService::Stub::GetJob)), "JOB_NOT_FOUND");
}

}  // namespace
}  // namespace baton::testing
