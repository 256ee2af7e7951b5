// Every preset, and a graph of one's own, from submit to the end: real gRPC and SQLite, no model.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "sdk/common/messages/columns.h"
#include "sdk/common/rpc/error.h"
#include "sdk/worker/worker.h"
#include "tests/end_to_end/in_process/undisturbed.h"

namespace baton::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using v1::Job;

std::string DashesOf(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

void AddEveryRole(TestCluster& cluster) {
  cluster.AddStandardWorkers();
  for (const char* role : {"critic", "cost_critic", "reference", "cost", "reward_model", "judge"}) {
    cluster.AddWorker(absl::StrCat(DashesOf(role), "-0"), role);
  }
}

v1::JobSpec SpecOf(TestCluster& cluster, const std::string& preset, int steps) {
  v1::JobSpec spec = cluster.RlSpec(steps);
  spec.mutable_algorithm()->set_preset(preset);
  spec.mutable_algorithm()->set_critic_warmup(preset == "vapo" ? 1 : 0);
  const std::string model = cluster.folder() + "/scalar";
  std::filesystem::create_directories(model);
  cluster.WriteFile("scalar/config.json", "{}");
  if (preset == "safe_rlhf") spec.mutable_cost_model()->mutable_model()->set_path(model);
  if (preset == "fapo") {
    spec.mutable_judge()->mutable_model()->set_path(model);
    spec.mutable_judge()->set_template_("Is {response} wrong?");
    spec.mutable_judge()->set_verdict("(yes|no)");
  }
  return spec;
}

TEST(DataflowTest, EveryPresetRunsToItsEnd) {
  TestCluster cluster;
  AddEveryRole(cluster);
  for (const char* preset :
       {"ppo", "grpo", "dr_grpo", "dapo", "rloo", "reinforce_plus_plus",
        "reinforce_plus_plus_baseline", "remax", "gspo", "cispo", "safe_rlhf", "vapo", "fapo"}) {
    const std::string name = DashesOf(preset);
    const auto job = cluster.Create(SpecOf(cluster, preset, 3), name);
    ASSERT_TRUE(job.ok()) << preset << ": " << job.status();
    ASSERT_TRUE(cluster.WaitForState(name, Job::STATE_SUCCEEDED))
        << preset << ": " << cluster.Get(name).error().message() << cluster.Why(name);
    const Job ended = cluster.Get(name);
    EXPECT_EQ(ended.step(), 3) << preset;
    EXPECT_EQ(ended.metrics().count("actor/pg_loss"), 1u) << preset;
    const bool critic = job->dataflow().update_size() == 2;
    EXPECT_EQ(ended.metrics().count("critic/vf_loss"), critic ? 1u : 0u) << preset;
  }
}

// The actor's own pass over what was sampled is part of the batch, whatever the algorithm.
TEST(DataflowTest, EveryPresetRunsWithLogProbsComputedAgain) {
  TestCluster cluster;
  AddEveryRole(cluster);
  for (const char* preset : {"ppo", "grpo", "dapo", "remax", "safe_rlhf", "vapo", "fapo"}) {
    const std::string name = DashesOf(preset);
    v1::JobSpec spec = SpecOf(cluster, preset, 2);
    spec.mutable_algorithm()->set_recompute_log_prob(true);
    const auto job = cluster.Create(spec, name);
    ASSERT_TRUE(job.ok()) << preset << ": " << job.status();
    ASSERT_TRUE(cluster.WaitForState(name, Job::STATE_SUCCEEDED))
        << preset << ": " << cluster.Get(name).error().message() << cluster.Why(name);
    const auto metrics = cluster.Get(name).metrics();
    // The fake actor says something else than the fake rollout did.
    EXPECT_GT(metrics.at("rollout_corr/log_prob_abs_diff"), 0) << preset;
    EXPECT_GT(metrics.at("rollout_corr/k3_kl"), 0) << preset;
  }
  EXPECT_GE(cluster.worker("actor-0").tasks("compute_log_prob"), 7 * 2 * 16);
}

v1::JobSpec TwoCritics(TestCluster& cluster, int steps) {
  v1::JobSpec spec = SpecOf(cluster, "safe_rlhf", steps);
  spec.mutable_algorithm()->set_cost_critic(true);
  spec.mutable_algorithm()->set_recompute_log_prob(true);
  return spec;
}

/// The hash of every role that learns.
std::map<std::string, std::string> LearnedBy(TestCluster& cluster, const std::string& job) {
  std::map<std::string, std::string> out;
  for (const char* role : {"actor", "critic", "cost_critic"}) {
    const std::string weights = cluster.FinalWeights(job, role);
    EXPECT_EQ(weights.rfind("{", 0), 0u) << weights;
    out[role] = WeightsHash(weights);
  }
  return out;
}

// With a critic of costs and log-probs computed again: if one dies, all three that learn go back
// together and end with the weights of an undisturbed run.
TEST(CostCriticTest, LosingAnyRoleDoesNotChangeTheWeights) {
  std::map<std::string, std::map<std::string, std::string>> ends;
  for (const std::string lost : {"nobody", "critic", "cost-critic", "actor"}) {
    TestCluster cluster(absl::Milliseconds(500));
    const auto slow = [](fake::FakeWorkerOptions& options) {
      options.token_delay = absl::Microseconds(300);
    };
    cluster.AddWorker("rollout-0", "rollout", slow);
    cluster.AddWorker("rollout-1", "rollout", slow);
    for (const char* role : {"actor", "critic", "cost_critic", "reference", "reward", "cost"}) {
      cluster.AddWorker(DashesOf(role) + "-0", role);
    }
    ASSERT_TRUE(cluster.Create(TwoCritics(cluster, 6), "rl").ok());
    ASSERT_TRUE(cluster.WaitForStep("rl", 3)) << cluster.Why("rl");
    if (lost != "nobody") {
      cluster.KillWorker(lost + "-0");
      cluster.AddWorker(lost + "-1", lost == "cost-critic" ? "cost_critic" : lost);
    }
    ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED))
        << lost << ": " << cluster.Get("rl").error().message() << cluster.Why("rl");
    ends[lost] = LearnedBy(cluster, "rl");
    const auto metrics = cluster.Get("rl").metrics();
    for (const char* name : {"critic/vf_loss", "cost_critic/vf_loss", "critic/cost_values/mean",
                             "timing_s/update_cost_critic", "rollout_corr/k3_kl", "train/lambda"}) {
      EXPECT_EQ(metrics.count(name), 1u) << name;
    }
  }
  const auto& undisturbed = ends["nobody"];
  EXPECT_NE(undisturbed.at("critic"), undisturbed.at("cost_critic"));
  for (const auto& [lost, weights] : ends) EXPECT_EQ(weights, undisturbed) << lost;
}

// The folder of a checkpoint has both critics, and a job that goes on from it ends where the first
// one did.
TEST(CostCriticTest, ACheckpointsFolderHasBothCritics) {
  TestCluster cluster;
  AddEveryRole(cluster);
  v1::JobSpec spec = TwoCritics(cluster, 6);
  spec.mutable_trainer()->set_keep_optimizer("all");
  ASSERT_TRUE(cluster.Create(spec, "rl").ok());
  ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  const std::string folder = cluster.folder() + "/jobs/default/rl/checkpoints/step-4";
  TestCluster other;
  AddEveryRole(other);
  v1::CreateJobRequest request;
  request.set_job_id("again");
  request.set_checkpoint(folder);
  grpc::ClientContext context;
  v1::Job job;
  const absl::Status created = FromGrpc(other.stub().CreateJob(&context, request, &job));
  ASSERT_TRUE(created.ok()) << created;
  ASSERT_TRUE(other.WaitForState("again", Job::STATE_SUCCEEDED)) << other.Why("again");
  EXPECT_EQ(LearnedBy(other, "again"), LearnedBy(cluster, "rl"));
  EXPECT_EQ(other.Events("again")[0].step(), 4);
}

// Whichever worker dies, the actor and the critic end with the weights of an undisturbed run.
TEST(DataflowTest, LosingAnyRoleDoesNotChangeTheWeights) {
  std::map<std::string, std::string> ends;
  for (const std::string lost : {"nobody", "critic", "reference", "actor"}) {
    TestCluster cluster(absl::Milliseconds(500));
    const auto slow = [](fake::FakeWorkerOptions& options) {
      options.token_delay = absl::Microseconds(300);
    };
    cluster.AddWorker("rollout-0", "rollout", slow);
    cluster.AddWorker("rollout-1", "rollout", slow);
    for (const char* role : {"actor", "critic", "reference", "reward"}) {
      cluster.AddWorker(absl::StrCat(role, "-0"), role);
    }
    ASSERT_TRUE(cluster.Create(SpecOf(cluster, "ppo", 6), "rl").ok());
    ASSERT_TRUE(cluster.WaitForStep("rl", 3)) << cluster.Why("rl");
    if (lost != "nobody") {
      cluster.KillWorker(lost + "-0");
      cluster.AddWorker(lost + "-1", lost);
    }
    ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED))
        << lost << ": " << cluster.Get("rl").error().message() << cluster.Why("rl");
    ends[lost] = WeightsHash(cluster.FinalWeights("rl"));
  }
  for (const auto& [lost, weights] : ends) EXPECT_EQ(weights, ends["nobody"]) << lost;
}

// Two ranks of each role that trains: whichever dies takes its group down alone, another worker
// takes its place, and the weights are those of an undisturbed run.
TEST(GroupsTest, ALostRankChangesNothing) {
  std::map<std::string, std::string> ends;
  for (const std::string lost : {"nobody", "actor-0", "actor-1", "critic-1"}) {
    TestCluster cluster(absl::Milliseconds(500));
    const auto slow = [](fake::FakeWorkerOptions& options) {
      options.token_delay = absl::Microseconds(300);
    };
    cluster.AddWorker("rollout-0", "rollout", slow);
    cluster.AddWorker("rollout-1", "rollout", slow);
    for (const char* worker : {"actor-0", "actor-1", "critic-0", "critic-1"}) {
      cluster.AddWorker(worker, std::string(worker).substr(0, strlen(worker) - 2));
    }
    for (const char* role : {"reference", "reward"}) {
      cluster.AddWorker(absl::StrCat(role, "-0"), role);
    }
    v1::JobSpec spec = SpecOf(cluster, "ppo", 6);
    spec.mutable_actor()->mutable_parallel()->set_dp(2);
    spec.mutable_critic()->mutable_train()->mutable_parallel()->set_dp(2);
    ASSERT_TRUE(cluster.Create(spec, "rl").ok());
    ASSERT_TRUE(cluster.WaitForStep("rl", 3)) << cluster.Why("rl");
    if (lost != "nobody") {
      cluster.KillWorker(lost);
      EXPECT_TRUE(WaitFor([&] {
        return absl::StrContains(cluster.Why("rl"), "the other ranks of its group");
      })) << cluster.Why("rl");
      const std::string role = lost.substr(0, lost.size() - 2);
      cluster.AddWorker(role + "-2", role);
    }
    ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED))
        << lost << ": " << cluster.Get("rl").error().message() << cluster.Why("rl");
    ends[lost] = WeightsHash(cluster.FinalWeights("rl"));
  }
  for (const auto& [lost, weights] : ends) EXPECT_EQ(weights, ends["nobody"]) << lost;
}

// Two ranks hold each model together. When a rank of the reference is lost, its scores are asked
// again of its next group epoch, and no role goes back to a checkpoint.
TEST(GroupsTest, ALostRankOfARoleThatScoresCostsNoStep) {
  std::map<std::string, std::string> ends;
  for (const std::string lost : {"nobody", "reference-0", "reference-1"}) {
    TestCluster cluster(absl::Milliseconds(500));
    const auto slow = [](fake::FakeWorkerOptions& options) {
      options.token_delay = absl::Microseconds(300);
    };
    cluster.AddWorker("rollout-0", "rollout", slow);
    cluster.AddWorker("rollout-1", "rollout", slow);
    cluster.AddWorker("reward-0", "reward");
    for (const char* role : {"actor", "critic", "reference"}) {
      for (const char* rank : {"-0", "-1"}) cluster.AddWorker(absl::StrCat(role, rank), role);
    }
    v1::JobSpec spec = SpecOf(cluster, "ppo", 60);  // longer than a lease
    spec.mutable_algorithm()->set_recompute_log_prob(true);
    spec.mutable_actor()->mutable_parallel()->set_tp(2);
    spec.mutable_critic()->mutable_train()->mutable_parallel()->set_tp(2);
    spec.mutable_reference()->mutable_parallel()->set_tp(2);
    const auto job = cluster.Create(spec, "rl");
    ASSERT_TRUE(job.ok()) << job.status();
    ASSERT_TRUE(cluster.WaitForStep("rl", 3)) << cluster.Why("rl");
    if (lost != "nobody") {
      cluster.KillWorker(lost);
      EXPECT_TRUE(WaitFor([&] {
        return absl::StrContains(cluster.Why("rl"), "the other ranks of its group");
      })) << cluster.Why("rl");
      cluster.AddWorker("reference-2", "reference");
    }
    ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED))
        << lost << ": " << cluster.Get("rl").error().message() << cluster.Why("rl");
    for (const v1::JobEvent& event : cluster.Events("rl")) {
      EXPECT_THAT(event.message(), ::testing::Not(HasSubstr("restarts from step"))) << lost;
    }
    ends[lost] = WeightsHash(cluster.FinalWeights("rl"));
  }
  for (const auto& [lost, weights] : ends) EXPECT_EQ(weights, ends["nobody"]) << lost;
}

TEST(GroupsTest, ShapesThatCannotWorkAreRefusedWithTheRemedy) {
  TestCluster cluster;
  AddEveryRole(cluster);
  v1::JobSpec spec = SpecOf(cluster, "ppo", 2);
  spec.mutable_actor()->mutable_parallel()->set_dp(64);
  spec.mutable_critic()->mutable_train()->mutable_parallel()->set_tp(3);
  spec.mutable_reference()->mutable_parallel()->set_tp(3);
  const std::string refused = cluster.Create(spec, "rl").status().ToString();
  EXPECT_THAT(refused, HasSubstr("spec.actor.parallel.dp: 64 data ranks share mini-batches of 16"));
  for (const char* path : {"spec.critic.train.parallel.tp", "spec.reference.parallel.tp"}) {
    EXPECT_THAT(refused, HasSubstr(absl::StrCat(path,
                                                ": 3 does not divide the model's 4 attention "
                                                "heads")));
  }
}

constexpr char kAnyRole[] = "actor+rollout+reward+critic+reference";

// Roles that share their workers give the bytes of roles that do not.
TEST(PoolsTest, SharedWorkersTrainTheSame) {
  std::map<std::string, std::string> ends;
  for (const std::string placement : {"", "colocate", "split", "standalone"}) {
    TestCluster cluster;
    if (placement.empty()) {
      AddEveryRole(cluster);
    } else {
      for (int i = 0; i < 4; ++i) cluster.AddWorker(absl::StrCat("any-", i), kAnyRole);
    }
    v1::JobSpec spec = SpecOf(cluster, "ppo", 4);
    if (!placement.empty()) spec.mutable_resources()->set_placement(placement);
    if (!placement.empty()) spec.mutable_resources()->clear_rollout_workers();
    const auto job = cluster.Create(spec, "rl");
    ASSERT_TRUE(job.ok()) << placement << ": " << job.status();
    ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED))
        << placement << ": " << cluster.Get("rl").error().message() << cluster.Why("rl");
    ends[placement] = WeightsHash(cluster.FinalWeights("rl"));
  }
  for (const auto& [placement, weights] : ends) EXPECT_EQ(weights, ends[""]) << placement;
}

// Actor, rollouts and reference on two workers; one dies while they generate.
TEST(PoolsTest, ALostWorkerOfAPoolChangesNothing) {
  std::map<std::string, std::string> ends;
  for (const std::string lost : {"", "any-0", "any-1"}) {
    TestCluster cluster(absl::Milliseconds(500));
    for (const char* worker : {"any-0", "any-1"}) {
      cluster.AddWorker(worker, kAnyRole, [](fake::FakeWorkerOptions& options) {
        options.token_delay = absl::Microseconds(300);
      });
    }
    cluster.AddWorker("reward-0", "reward");
    v1::JobSpec spec = SpecOf(cluster, "grpo", 6);
    spec.mutable_algorithm()->set_use_kl_loss(true);
    spec.mutable_actor()->mutable_parallel()->set_dp(2);
    spec.mutable_resources()->clear_rollout_workers();
    v1::PoolSpec* pool = spec.mutable_resources()->add_pools();
    pool->add_roles("actor");
    pool->add_roles("reference");
    const auto job = cluster.Create(spec, "rl");
    ASSERT_TRUE(job.ok()) << job.status();
    ASSERT_TRUE(cluster.WaitForStep("rl", 3)) << cluster.Why("rl");
    if (!lost.empty()) {
      cluster.KillWorker(lost);
      EXPECT_TRUE(WaitFor([&] {
        return absl::StrContains(cluster.Why("rl"), "1 actor+reference+rollout worker to attach");
      })) << cluster.Why("rl");
      cluster.AddWorker("any-2", kAnyRole);
    }
    ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED))
        << lost << ": " << cluster.Get("rl").error().message() << cluster.Why("rl");
    ends[lost] = WeightsHash(cluster.FinalWeights("rl"));
  }
  for (const auto& [lost, weights] : ends) EXPECT_EQ(weights, ends[""]) << lost;
}

// A controller that dies in the middle finds its pools as they were.
TEST(PoolsTest, ARestartOfTheControllerChangesNothing) {
  std::map<bool, std::string> ends;
  for (const bool restart : {false, true}) {
    TestCluster cluster;
    for (const char* worker : {"any-0", "any-1", "any-2"}) {
      cluster.AddWorker(worker, kAnyRole, [](fake::FakeWorkerOptions& options) {
        options.token_delay = absl::Microseconds(300);
      });
    }
    v1::JobSpec spec = SpecOf(cluster, "ppo", 6);
    spec.mutable_resources()->set_placement("split");
    spec.mutable_resources()->clear_rollout_workers();
    spec.mutable_resources()->clear_reward_workers();
    ASSERT_TRUE(cluster.Create(spec, "rl").ok());
    for (const int step : {1, 2, 3, 4}) {
      ASSERT_TRUE(cluster.WaitForStep("rl", step)) << cluster.Why("rl");
      if (!restart) continue;
      cluster.StopController();
      cluster.StartController();
    }
    ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED))
        << cluster.Get("rl").error().message() << cluster.Why("rl");
    ends[restart] = WeightsHash(cluster.FinalWeights("rl"));
  }
  EXPECT_EQ(ends[true], ends[false]);
}

// A method that no worker has registered is refused with its path; once a worker has, the same spec
// is taken, and what the method makes is part of the reward.
TEST(DataflowTest, ACustomGraphCallsAMethodOfACustomWorker) {
  TestCluster cluster;
  cluster.AddStandardWorkers();
  v1::JobSpec spec = cluster.RlSpec(2);
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    score { node: "rules" role: "reward" method: "compute_reward" out: "right" }
    score { node: "style" role: "critique" method: "judge_style" inputs: "right" out: "style" }
    advantage { estimator: "rloo" rewards { key: "right" value: 1 }
                rewards { key: "style" value: 10 } }
    update { role: "actor" method: "update" loss: "reinforce" })",
                                                            spec.mutable_dataflow()));
  const auto refused = cluster.Create(spec, "rl");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().ToString(),
              AllOf(HasSubstr("spec.dataflow.score[1].method"),
                    HasSubstr("no attached worker of role critique offers method judge_style")));

  WorkerOptions options;
  options.controller = cluster.address();
  options.worker_id = "critique-0";
  auto worker = *Worker::Create(options);
  std::atomic<int> asked = 0;
  ASSERT_TRUE(worker
                  ->RegisterMethod("critique", "judge_style", 8,
                                   [&](const v1::Task& task, TaskContext&) {
                                     ++asked;
                                     v1::TaskResult result;
                                     const auto& scores = task.score().trajectory().scores();
                                     (*result.mutable_metrics())["style"] =
                                         scores.count("right") > 0 ? 0.5 : -100;
                                     return result;
                                   })
                  .ok());
  std::thread running([&] { EXPECT_TRUE(worker->Run().ok()); });
  ASSERT_TRUE(WaitFor([&] { return worker->attached(); }));
  ASSERT_TRUE(WaitFor([&] { return cluster.Create(spec, "rl").ok(); }));
  ASSERT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  // Two steps of 16 responses, and 10 prompts before and after.
  EXPECT_EQ(asked, 2 * 16 + 2 * 10);
  const Job job = cluster.Get("rl");
  const double right = job.metrics().at("reward/right/mean");
  EXPECT_NEAR(job.metrics().at("critic/rewards/mean"), right + 10 * 0.5, 1e-6);
  worker->Stop();
  running.join();
}

// The values that a user's method gives each token reach the batch unchanged.
TEST(DataflowTest, CustomAdvantagesMayBeAColumn) {
  TestCluster cluster;
  cluster.AddStandardWorkers();
  WorkerOptions options;
  options.controller = cluster.address();
  options.worker_id = "mine-0";
  auto worker = *Worker::Create(options);
  const auto per_token = [](const v1::Task& task, TaskContext&) {
    const v1::Column* tokens = FindColumn(task.score().trajectory(), "tokens");
    std::vector<float> advantages(tokens->data().size() / sizeof(int32_t), -0.5F);
    advantages.back() = 2;
    v1::TaskResult result;
    *result.add_columns() = MakeColumn("advantage", /*per_token=*/false, advantages);
    return result;
  };
  ASSERT_TRUE(worker->RegisterMethod("mine", "compute_advantage", 8, per_token).ok());
  std::thread running([&] { EXPECT_TRUE(worker->Run().ok()); });
  v1::JobSpec spec = cluster.RlSpec(2);
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
    score { node: "rules" role: "reward" method: "compute_reward" out: "reward" }
    score { node: "mine" role: "mine" method: "compute_advantage" out: "advantage" }
    advantage { estimator: "given" }
    update { role: "actor" method: "update" loss: "reinforce" })",
                                                            spec.mutable_dataflow()));
  EXPECT_TRUE(WaitFor([&] { return cluster.Create(spec, "rl").ok(); }));
  EXPECT_TRUE(cluster.WaitForState("rl", Job::STATE_SUCCEEDED)) << cluster.Why("rl");
  const auto metrics = cluster.Get("rl").metrics();
  EXPECT_EQ(metrics.at("critic/advantages/max"), 2);
  EXPECT_EQ(metrics.at("critic/advantages/min"), -0.5);
  // The advantage is 2 at one token of each of 16 responses, -0.5 at all other tokens.
  const double tokens = 16 * metrics.at("response_length/mean");
  EXPECT_NEAR(metrics.at("critic/advantages/mean"), (16 * 2 - 0.5 * (tokens - 16)) / tokens, 1e-6);
  worker->Stop();
  running.join();
}

}  // namespace
}  // namespace baton::testing
