// Bad input gets an error that says where and what; nothing that runs is disturbed.
#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/in_process/cluster_testing.h"

namespace baton::testing {
namespace {

using ::testing::HasSubstr;

std::string Refusal(TestCluster& cluster, const v1::JobSpec& spec) {
  const auto job = cluster.Create(spec, "bad");
  EXPECT_FALSE(job.ok());
  EXPECT_EQ(ErrorReason(job.status()), "SPEC_INVALID") << job.status();
  return std::string(job.status().message());
}

TEST(RefusalsTest, EveryProblemOfASpecAtOnce) {
  TestCluster cluster;
  v1::JobSpec spec = cluster.RlSpec(0);
  spec.mutable_rollout()->set_n(0);
  spec.mutable_data()->add_train_files("/nowhere/x.jsonl");
  const std::string message = Refusal(cluster, spec);
  EXPECT_THAT(message, HasSubstr("spec.rollout.n: 0 is not in [1, 1024]"));
  EXPECT_THAT(message, HasSubstr("spec.trainer.total_training_steps: 0 is not in"));
  EXPECT_THAT(message, HasSubstr("/nowhere/x.jsonl: cannot be opened"));
}

TEST(RefusalsTest, ABrokenLineIsNamedWithItsNumber) {
  TestCluster cluster;
  v1::JobSpec spec = cluster.RlSpec(1);
  *spec.mutable_data()->mutable_train_files(0) =
      cluster.WriteFile("broken.jsonl", "{\"prompt\": \"a\"}\n\n{\"prompt\": 7}\nnot json\n");
  const std::string message = Refusal(cluster, spec);
  EXPECT_THAT(message, HasSubstr("broken.jsonl:3: `prompt` is number, not a string"));
  EXPECT_THAT(message, HasSubstr("broken.jsonl:4: column 1: not valid JSON"));
}

TEST(RefusalsTest, AnEmptyDataSetAndAMissingModel) {
  TestCluster cluster;
  v1::JobSpec spec = cluster.RlSpec(1);
  *spec.mutable_data()->mutable_train_files(0) = cluster.WriteFile("empty.jsonl", "\n");
  spec.mutable_model()->clear_init();
  spec.mutable_model()->set_path("/nowhere");
  const std::string message = Refusal(cluster, spec);
  EXPECT_THAT(message, HasSubstr("empty.jsonl: holds no example"));
  EXPECT_THAT(message, HasSubstr("no config.json in /nowhere"));
  spec.mutable_model()->set_path("Qwen/Qwen2.5-0.5B");
  EXPECT_THAT(Refusal(cluster, spec),
              HasSubstr("'Qwen/Qwen2.5-0.5B' reads as a name on the Hugging Face hub, and Baton "
                        "downloads nothing: fetch it with `hf download Qwen/Qwen2.5-0.5B"));
  spec.mutable_model()->set_path("job:unknown");
  EXPECT_THAT(Refusal(cluster, spec), HasSubstr("there is no job"));
}

TEST(RefusalsTest, ASecondWorkerOfTheSameNameDoesNotDisturbTheFirst) {
  TestCluster cluster;
  cluster.AddStandardWorkers();
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(20), "rl").ok());
  ASSERT_TRUE(cluster.WaitForStep("rl", 1));
  fake::FakeWorkerOptions options;
  options.worker.controller = cluster.address();
  options.worker.worker_id = "actor-0";
  options.roles = {"actor"};
  auto twin = fake::FakeWorker::Create(options);
  ASSERT_TRUE(twin.ok());
  (*twin)->Start();
  EXPECT_TRUE(cluster.WaitForState("rl", v1::Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  EXPECT_EQ((*twin)->tasks("update"), 0);
}

}  // namespace
}  // namespace baton::testing
