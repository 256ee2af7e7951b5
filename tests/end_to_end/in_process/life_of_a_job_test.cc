// A job from submit to its end, with the fake engine, through real gRPC and SQLite.
#include <filesystem>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/in_process/cluster_testing.h"

namespace baton::testing {
namespace {

using ::testing::HasSubstr;
using v1::Job;

/// All that job "rl" keeps.
google::protobuf::RepeatedPtrField<v1::Trajectory> Trajectories(TestCluster& cluster,
                                                                v1::Purpose purpose) {
  v1::ListTrajectoriesRequest request;
  request.set_name("rl");
  request.set_purpose(purpose);
  request.set_page_size(1000);
  grpc::ClientContext context;
  v1::ListTrajectoriesResponse response;
  EXPECT_TRUE(cluster.stub().ListTrajectories(&context, request, &response).ok());
  return response.trajectories();
}

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

TEST(LifeOfAJobTest, OlderCheckpointsOfASucceededJobHaveWeightsOnly) {
  TestCluster cluster;
  cluster.AddStandardWorkers();
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(5), "rl").ok());
  ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  v1::ListCheckpointsRequest request;
  request.set_name("rl");
  v1::ListCheckpointsResponse list;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(cluster.stub().ListCheckpoints(&context, request, &list).ok());
  }
  ASSERT_EQ(list.checkpoints_size(), 2);
  const v1::Checkpoint &newest = list.checkpoints(0), &older = list.checkpoints(1);
  EXPECT_FALSE(newest.weights_only());
  EXPECT_GT(newest.optimizer_bytes(), 0);
  EXPECT_TRUE(older.weights_only());
  EXPECT_LT(older.size_bytes(), newest.size_bytes());
  EXPECT_TRUE(WaitFor([&] { return !std::filesystem::exists(older.path() + "/optimizer.json"); }));
  EXPECT_TRUE(std::filesystem::exists(newest.path() + "/optimizer.json"));

  const auto go_on = [&cluster](const std::string& checkpoint) {
    v1::CreateJobRequest from;
    from.set_checkpoint(checkpoint);
    from.mutable_changes()->mutable_trainer()->set_total_training_steps(6);
    grpc::ClientContext context;
    Job job;
    const absl::Status status = FromGrpc(cluster.stub().CreateJob(&context, from, &job));
    return status.ok() ? absl::StatusOr<Job>(job) : status;
  };
  EXPECT_EQ(ErrorReason(go_on("job:rl@4").status()), "CHECKPOINT_WEIGHTS_ONLY");
  EXPECT_EQ(ErrorReason(go_on(older.path()).status()), "CHECKPOINT_WEIGHTS_ONLY");
  const auto longer = go_on("job:rl");
  ASSERT_TRUE(longer.ok()) << longer.status();
  EXPECT_TRUE(cluster.WaitForState(longer->name(), Job::STATE_SUCCEEDED));

  v1::ExportCheckpointRequest exported;
  exported.set_name("rl");
  exported.set_step(4);
  exported.set_directory(cluster.folder() + "/exported");
  grpc::ClientContext context;
  v1::ExportCheckpointResponse answer;
  const absl::Status written =
      FromGrpc(cluster.stub().ExportCheckpoint(&context, exported, &answer));
  EXPECT_TRUE(written.ok()) << written;
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
  // As it was recorded: a change of the inside must not change what a user's job learns.
  EXPECT_THAT(weights[0], HasSubstr("\"weights\":\"9c2b90a01293d0a9\""));
}

TEST(LifeOfAJobTest, EverySampleIsListedWithItsTextAndItsScore) {
  TestCluster cluster;
  cluster.AddStandardWorkers();
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(2), "rl").ok());
  ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  const auto trajectories = Trajectories(cluster, v1::PURPOSE_TRAIN);
  ASSERT_EQ(trajectories.size(), 2 * 4 * 4);
  for (const v1::Trajectory& t : trajectories) {
    EXPECT_EQ(t.scores().count("reward"), 1u) << t.trajectory_id();
    EXPECT_FALSE(t.prompt_text().empty()) << t.trajectory_id();
    EXPECT_FALSE(t.response_text().empty()) << t.trajectory_id();
    EXPECT_GE(t.step(), 1u);
    EXPECT_LE(t.step(), 2u);
  }
}

TEST(LifeOfAJobTest, DropsOldEventsAndTellsWatchersThatMissedThem) {
  TestCluster cluster(absl::Seconds(5), [](controller::ControllerOptions& options) {
    options.kept_events = 10;
    options.kept_logs = 10;
  });
  cluster.AddStandardWorkers();
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(20), "rl").ok());
  ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  const auto kept = cluster.Events("rl");
  ASSERT_GE(kept.size(), 10u);
  ASSERT_LE(kept.size(), 12u);
  EXPECT_EQ(kept.back().type(), "state");
  const auto end_of = [&](int64_t after) {
    grpc::ClientContext context;
    v1::WatchJobRequest request;
    request.set_name("rl");
    request.set_after_revision(after);
    auto reader = cluster.stub().WatchJob(&context, request);
    v1::JobEvent event;
    while (reader->Read(&event)) {
    }
    return FromGrpc(reader->Finish());
  };
  EXPECT_EQ(ErrorReason(end_of(1)), "REVISION_COMPACTED");
  EXPECT_TRUE(end_of(kept.front().revision() - 1).ok());
  EXPECT_TRUE(end_of(kept.back().revision()).ok());
}

// A job that begins with another job's checkpoint has a copy of its own.
TEST(LifeOfAJobTest, AJobSurvivesDeletionOfTheJobThatItBeganWith) {
  TestCluster cluster;
  cluster.AddStandardWorkers();
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(2), "first").ok());
  ASSERT_TRUE(cluster.WaitForState("first", Job::STATE_SUCCEEDED)) << cluster.Why("first");
  v1::JobSpec spec = cluster.RlSpec(2);
  spec.mutable_model()->clear_init();
  spec.mutable_model()->set_path("job:first");
  const auto second = cluster.Create(spec, "second");
  ASSERT_TRUE(second.ok()) << second.status();
  grpc::ClientContext context;
  v1::DeleteJobRequest request;
  request.set_name("first");
  v1::DeleteJobResponse response;
  ASSERT_TRUE(cluster.stub().DeleteJob(&context, request, &response).ok());
  const std::string path = second->effective_spec().model().path();
  EXPECT_EQ(path, cluster.folder() + "/jobs/default/second/model");
  EXPECT_TRUE(std::filesystem::exists(path + "/weights.json"));
  EXPECT_EQ(second->spec().model().path(), "job:first");
  EXPECT_TRUE(cluster.WaitForState("second", Job::STATE_SUCCEEDED)) << cluster.Why("second");
}

TEST(LifeOfAJobTest, AnEvaluationIsOfTheStepAfterWhichItWasMade) {
  TestCluster cluster;
  cluster.AddStandardWorkers();
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(2), "rl").ok());
  ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  const auto trajectories = Trajectories(cluster, v1::PURPOSE_EVAL);
  std::set<uint64_t> steps;
  for (const v1::Trajectory& t : trajectories) {
    steps.insert(t.step());
    EXPECT_EQ(t.policy_version(), t.step() + 1);  // version 1 is what the job began with
  }
  EXPECT_THAT(steps, ::testing::ElementsAre(0, 2));  // before and after
}

}  // namespace
}  // namespace baton::testing
