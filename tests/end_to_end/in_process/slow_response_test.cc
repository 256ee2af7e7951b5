// An async job in which one prompt has responses ten times as long as those of all others.
#include <algorithm>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/in_process/cluster_testing.h"
#include "tests/fake_worker/fake_generator.h"

namespace baton::testing {
namespace {

using v1::Job;

constexpr uint64_t kLong = 1;   // the prompt
constexpr int kSamples = 2;     // of each prompt
constexpr int kAtOnce = 4;      // groups that the rollouts generate at once
constexpr int kStaleness = 16;  // more than the updates that the long responses take

// By prompt: the step that consumed its responses.
std::map<uint64_t, uint64_t> StepsOf(TestCluster& cluster) {
  v1::ListTrajectoriesRequest request;
  request.set_name("rl");
  request.set_purpose(v1::PURPOSE_TRAIN);
  request.set_page_size(1000);
  grpc::ClientContext context;
  v1::ListTrajectoriesResponse response;
  EXPECT_TRUE(cluster.stub().ListTrajectories(&context, request, &response).ok());
  std::map<uint64_t, uint64_t> steps;
  for (const v1::Trajectory& trajectory : response.trajectories()) {
    steps[trajectory.prompt_id()] = trajectory.step();
  }
  return steps;
}

TEST(SlowResponseTest, ASlowResponseDelaysNoOtherBatch) {
  TestCluster cluster;
  cluster.AddWorker("actor-0", "actor");
  cluster.AddWorker("reward-0", "reward");
  for (const char* rollout : {"rollout-0", "rollout-1"}) {
    cluster.AddWorker(rollout, "rollout", [](fake::FakeWorkerOptions& options) {
      options.token_delay = absl::Milliseconds(5);
      options.generate_credits = kAtOnce / 2 * kSamples;
    });
  }
  std::string lines;
  for (uint64_t i = 0; i < 60; ++i) {
    absl::StrAppend(&lines, "{\"prompt\": \"", i, i == kLong ? fake::kLongPrompt : "",
                    "\", \"answer\": \"1\"}\n");
  }
  v1::JobSpec spec = cluster.RlSpec(/*steps=*/14);
  *spec.mutable_data()->mutable_train_files(0) = cluster.WriteFile("prompts.jsonl", lines);
  spec.mutable_data()->clear_val_files();
  spec.mutable_data()->set_shuffle(false);
  spec.mutable_data()->set_max_response_length(400);
  spec.mutable_rollout()->set_n(kSamples);
  spec.mutable_algorithm()->set_mode("async");
  spec.mutable_algorithm()->set_filter_groups(false);
  spec.mutable_schedule()->set_max_staleness(kStaleness);
  spec.mutable_schedule()->set_refresh("off");
  spec.mutable_schedule()->set_pace("off");  // which tries how far ahead pays, by the clock
  spec.mutable_trainer()->set_keep_experience("all");
  ASSERT_TRUE(cluster.Create(spec, "rl").ok());
  ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");

  const std::map<uint64_t, uint64_t> steps = StepsOf(cluster);
  ASSERT_EQ(steps.count(kLong), 1u) << "it was dropped, or is still generated";
  // The prompts that began beside it.
  for (uint64_t prompt = 0; prompt < kAtOnce; ++prompt) {
    if (prompt == kLong) continue;
    ASSERT_EQ(steps.count(prompt), 1u);
    EXPECT_GE(steps.at(prompt), 1u);
    EXPECT_LE(steps.at(prompt) + 2, steps.at(kLong)) << "prompt " << prompt;
  }
  const Job job = cluster.Get("rl");
  EXPECT_EQ(job.metrics().at("buffer/stale_dropped_groups"), 0);
}

}  // namespace
}  // namespace baton::testing
