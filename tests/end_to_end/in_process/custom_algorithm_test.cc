// Runs the example as a user would: the program, and job.yaml through the service.
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/client/spec_yaml.h"
#include "sdk/common/process/test_process.h"
#include "sdk/worker/fake_controller.h"
#include "tests/end_to_end/in_process/cluster_testing.h"
#include "tests/support/sdk/worker.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using v1::Job;

TestProcess StartExample(const std::string& address) {
  return TestProcess(
      {std::string(std::getenv("BATON_BUILD_DIR")) + "/bin/custom_algorithm", address});
}

v1::JobSpec SpecOf(testing::TestCluster& cluster, int steps) {
  std::ifstream file(std::string(std::getenv("BATON_SOURCE_DIR")) +
                     "/examples/custom_algorithm/job.yaml");
  std::stringstream yaml;
  yaml << file.rdbuf();
  ParsedSpec parsed = ParseSpecYaml(yaml.str(), {});
  EXPECT_TRUE(parsed.problems.empty()) << FormatProblems("job.yaml", parsed.problems);
  parsed.spec.mutable_data()->set_train_files(0, cluster.Prompts("prompts.jsonl", 20));
  parsed.spec.mutable_trainer()->set_total_training_steps(steps);
  return parsed.spec;
}

TEST(CustomAlgorithm, SubtractsTheMedianOfTheGroup) {
  FakeController controller{FakeController::Options()};
  TestProcess program = StartExample(controller.address());
  ASSERT_TRUE(controller.RunTask(MakeTask("a", "median", "assign_role")).has_value());
  const auto advantage = [&](const std::string& token, double own, std::vector<double> rewards) {
    v1::Task task = MakeTask(token, "median", "compute_advantage");
    (*task.mutable_score()->mutable_trajectory()->mutable_scores())["reward"] = own;
    for (double reward : rewards) {
      (*task.mutable_score()->add_group()->mutable_scores())["reward"] = reward;
    }
    const auto result = controller.RunTask(task);
    if (!result.has_value() || result->metrics().count("advantage") == 0) return -999.0;
    return result->metrics().at("advantage");
  };
  EXPECT_EQ(advantage("t1", 1, {0, 1, 0, 5, 0}), 1);
  EXPECT_EQ(advantage("t2", 2, {10, 1, 3, 2}), -0.5);
  EXPECT_EQ(advantage("t3", 2, {}), -999) << "a node that is not over the group";
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait(), 0);
}

TEST(CustomAlgorithm, AJobTrainsWithItAndSurvivesItsLoss) {
  testing::TestCluster cluster(absl::Milliseconds(500));
  cluster.AddWorker("actor-0", "actor");
  cluster.AddWorker("rollout-0", "rollout",
                    [](auto& options) { options.token_delay = absl::Milliseconds(2); });
  cluster.AddWorker("reward-0", "reward");
  EXPECT_THAT(cluster.Create(SpecOf(cluster, 5), "j").status().ToString(),
              HasSubstr("no attached worker of role median offers method compute_advantage"));
  TestProcess first = StartExample(cluster.address());
  ASSERT_TRUE(testing::WaitFor([&] { return cluster.Create(SpecOf(cluster, 20), "j").ok(); }));
  ASSERT_TRUE(cluster.WaitForStep("j", 3)) << cluster.Why("j");
  first.Signal(SIGKILL);
  EXPECT_EQ(first.Wait(), 128 + SIGKILL);
  EXPECT_TRUE(testing::WaitFor([&] {
    return cluster.Why("j").find("1 median worker") != std::string::npos;
  })) << cluster.Why("j");
  EXPECT_LT(cluster.Get("j").step(), 20);
  const TestProcess second = StartExample(cluster.address());
  ASSERT_TRUE(cluster.WaitForState("j", Job::STATE_SUCCEEDED)) << cluster.Why("j");
  const Job ended = cluster.Get("j");
  EXPECT_EQ(ended.step(), 20);
  // Rewards in [0, 1] about their median: some response is above it, some below.
  EXPECT_EQ(ended.metrics().count("reward/advantage/mean"), 1u);
  const double max = ended.metrics().at("critic/advantages/max");
  const double min = ended.metrics().at("critic/advantages/min");
  EXPECT_GT(max, 0);
  EXPECT_LE(max, 1);
  EXPECT_LT(min, 0);
  EXPECT_GE(min, -1);
}

}  // namespace
}  // namespace baton
