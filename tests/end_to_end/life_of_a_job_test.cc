// A job from submit to its end, with the fake engine, through real gRPC and SQLite.
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/cluster_testing.h"

namespace baton::testing {
namespace {

using ::testing::HasSubstr;
using v1::Job;

TEST(LifeOfAJobTest, ReinforcementLearningRunsToItsEnd) {
  TestCluster cluster;
  cluster.AddStandardWorkers();
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(5), "rl").ok());
  ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  const Job job = cluster.Get("rl");
  EXPECT_EQ(job.step(), 5);
  EXPECT_TRUE(job.workers().empty());
  EXPECT_GT(job.metrics().count("val/accuracy"), 0u);
  EXPECT_GT(job.metrics().count("critic/score/mean"), 0u);

  const auto events = cluster.Events("rl");
  EXPECT_TRUE(cluster.watch_status().ok()) << cluster.watch_status();
  int steps = 0, evaluations = 0, checkpoints = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].revision(), static_cast<int64_t>(i) + 1);
    steps += events[i].type() == "step";
    evaluations += events[i].type() == "evaluation";
    checkpoints += events[i].type() == "checkpoint";
  }
  EXPECT_EQ(steps, 5);
  EXPECT_EQ(evaluations, 2);  // before and after
  EXPECT_EQ(checkpoints, 3);  // after steps 2, 4 and at the end
}

TEST(LifeOfAJobTest, SupervisedFineTuningNeedsTheTrainerAlone) {
  TestCluster cluster;
  cluster.AddWorker("actor-0", "actor");
  v1::JobSpec spec = cluster.RlSpec(6);
  spec.set_kind(v1::JOB_KIND_SFT);
  spec.clear_rollout();
  spec.clear_reward();
  spec.clear_resources();
  spec.mutable_data()->clear_val_files();
  ASSERT_TRUE(cluster.Create(spec, "sft").ok());
  ASSERT_TRUE(cluster.WaitForState("sft", Job::STATE_SUCCEEDED)) << cluster.Why("sft");
  EXPECT_EQ(cluster.Get("sft").step(), 6);
  EXPECT_THAT(cluster.FinalWeights("sft"), HasSubstr("{"));
}

TEST(LifeOfAJobTest, TheSameSpecEndsWithTheSameWeights) {
  std::string weights[2];
  for (std::string& w : weights) {
    TestCluster cluster;
    cluster.AddStandardWorkers();
    ASSERT_TRUE(cluster.Create(cluster.RlSpec(4), "rl").ok());
    ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");
    w = cluster.FinalWeights("rl");
  }
  EXPECT_EQ(weights[0], weights[1]);
  EXPECT_THAT(weights[0], HasSubstr("{"));
}

TEST(LifeOfAJobTest, EverySampleIsListedWithItsTextAndItsScore) {
  TestCluster cluster;
  cluster.AddStandardWorkers();
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(2), "rl").ok());
  ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  v1::ListTrajectoriesRequest request;
  request.set_name("rl");
  request.set_purpose(v1::PURPOSE_TRAIN);
  request.set_page_size(1000);
  grpc::ClientContext context;
  v1::ListTrajectoriesResponse response;
  ASSERT_TRUE(cluster.stub().ListTrajectories(&context, request, &response).ok());
  ASSERT_EQ(response.trajectories_size(), 2 * 4 * 4);
  for (const v1::Trajectory& t : response.trajectories()) {
    EXPECT_EQ(t.scores().count("reward"), 1u) << t.trajectory_id();
    EXPECT_FALSE(t.prompt_text().empty()) << t.trajectory_id();
    EXPECT_FALSE(t.response_text().empty()) << t.trajectory_id();
    EXPECT_GE(t.step(), 1u);
    EXPECT_LE(t.step(), 2u);
  }
}

TEST(LifeOfAJobTest, AnEvaluationIsOfTheStepAfterWhichItWasMade) {
  TestCluster cluster;
  cluster.AddStandardWorkers();
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(2), "rl").ok());
  ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  v1::ListTrajectoriesRequest request;
  request.set_name("rl");
  request.set_purpose(v1::PURPOSE_EVAL);
  request.set_page_size(1000);
  grpc::ClientContext context;
  v1::ListTrajectoriesResponse response;
  ASSERT_TRUE(cluster.stub().ListTrajectories(&context, request, &response).ok());
  std::set<uint64_t> steps;
  for (const v1::Trajectory& t : response.trajectories()) {
    steps.insert(t.step());
    EXPECT_EQ(t.policy_version(), t.step() + 1);  // version 1 is what the job began with
  }
  EXPECT_THAT(steps, ::testing::ElementsAre(0, 2));  // before and after
}

}  // namespace
}  // namespace baton::testing
