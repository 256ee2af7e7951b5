// Jobs get workers that offer what they ask for: real gRPC, Baton's own (fake) reward worker beside
// one of a user's own.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sdk/worker/worker.h"
#include "tests/end_to_end/in_process/cluster_testing.h"

namespace baton::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using v1::Job;

constexpr double kOwnReward = 0.125;  // no reward of the fake engine

/// A worker of a user's own, without features: it answers methods of one role with kOwnReward.
class UsersWorker {
 public:
  UsersWorker(TestCluster& cluster, const std::string& method)
      : UsersWorker(cluster, "reward", {method}) {}
  UsersWorker(TestCluster& cluster, const std::string& role,
              const std::vector<std::string>& methods) {
    WorkerOptions options;
    options.controller = cluster.address();
    options.worker_id = "a-users-own";  // before "reward-0": no accident of names helps
    worker_ = *Worker::Create(std::move(options));
    for (const std::string& method : methods) {
      EXPECT_TRUE(worker_
                      ->RegisterMethod(role, method, 8,
                                       [this](const v1::Task&, TaskContext&) {
                                         ++asked_;
                                         v1::TaskResult result;
                                         (*result.mutable_metrics())["reward"] = kOwnReward;
                                         return result;
                                       })
                      .ok());
    }
    thread_ = std::thread([this] { EXPECT_TRUE(worker_->Run().ok()); });
    EXPECT_TRUE(WaitFor([this] { return worker_->attached(); }));
  }
  ~UsersWorker() {
    worker_->Stop();
    thread_.join();
  }
  int asked() const { return asked_; }

 private:
  std::atomic<int> asked_ = 0;
  std::unique_ptr<Worker> worker_;
  std::thread thread_;
};

v1::JobSpec WithMethod(v1::JobSpec spec, const std::string& method) {
  spec.clear_reward();
  spec.mutable_reward()->set_method(method);
  return spec;
}

v1::JobSpec WithCommand(v1::JobSpec spec) {
  spec.clear_reward();
  spec.mutable_reward()->set_command("python3 reward.py");
  return spec;
}

TEST(OffersTest, EachJobIsScoredByTheWorkerThatOffersItsMethod) {
  TestCluster cluster;
  UsersWorker own(cluster, "compute_brevity");
  cluster.AddStandardWorkers();
  ASSERT_TRUE(WaitFor([&] { return cluster.Workers().size() == 5; }));
  ASSERT_TRUE(cluster.Create(WithMethod(cluster.RlSpec(2), "compute_brevity"), "named").ok());
  ASSERT_TRUE(cluster.WaitForState("named", Job::STATE_SUCCEEDED)) << cluster.Why("named");
  EXPECT_EQ(cluster.Get("named").metrics().at("critic/score/mean"), kOwnReward);
  const int asked = own.asked();
  EXPECT_GE(asked, 2 * 16);
  for (const v1::JobSpec& spec : {cluster.RlSpec(2), WithCommand(cluster.RlSpec(2))}) {
    const std::string job = spec.reward().command().empty() ? "rules" : "command";
    ASSERT_TRUE(cluster.Create(spec, job).ok());
    ASSERT_TRUE(cluster.WaitForState(job, Job::STATE_SUCCEEDED)) << cluster.Why(job);
    EXPECT_NE(cluster.Get(job).metrics().at("critic/score/mean"), kOwnReward) << job;
  }
  EXPECT_EQ(own.asked(), asked);
}

// The worker's method has the name of Baton's own, and computes neither rules nor commands.
TEST(OffersTest, AWorkerThatOnlyHasTheNameOfTheMethodIsNotEnough) {
  TestCluster cluster;
  cluster.AddWorker("actor-0", "actor");
  cluster.AddWorker("rollout-0", "rollout");
  cluster.AddWorker("rollout-1", "rollout");
  ASSERT_TRUE(WaitFor([&] { return cluster.Workers().size() == 3; }));
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(2), "early").ok());  // no reward worker is known yet
  EXPECT_THAT(cluster.Why("early"), HasSubstr("no worker of role reward is attached"));
  UsersWorker own(cluster, "compute_reward");
  EXPECT_TRUE(WaitFor([&] {
    return cluster.Why("early").find(
               "no attached worker of role reward computes the rules of "
               "spec.reward") != std::string::npos;
  })) << cluster.Why("early");
  EXPECT_THAT(cluster.Create(cluster.RlSpec(2), "late").status().ToString(),
              AllOf(HasSubstr("spec.reward.rules"),
                    HasSubstr("no attached worker of role reward computes the rules")));
  EXPECT_THAT(cluster.Create(WithCommand(cluster.RlSpec(2)), "late").status().ToString(),
              AllOf(HasSubstr("spec.reward.command"), HasSubstr("--allow-commands")));
  cluster.AddWorker("reward-0", "reward");
  ASSERT_TRUE(cluster.WaitForState("early", Job::STATE_SUCCEEDED)) << cluster.Why("early");
  EXPECT_EQ(own.asked(), 0);
}

// A rollout of the user's own, which does not promise chat_templates.
TEST(OffersTest, AWorkerThatDoesNotKnowTheTemplatesOfModelsIsNotEnough) {
  TestCluster cluster;
  cluster.AddWorker("actor-0", "actor");
  cluster.AddWorker("reward-0", "reward");
  ASSERT_TRUE(WaitFor([&] { return cluster.Workers().size() == 2; }));
  ASSERT_TRUE(cluster.Create(cluster.RlSpec(2), "early").ok());  // no rollout is known yet
  UsersWorker own(cluster, "rollout", {"generate", "load_weights"});
  EXPECT_TRUE(WaitFor([&] {
    return cluster.Why("early").find(
               "no attached worker of role rollout reads chat templates of models") !=
           std::string::npos;
  })) << cluster.Why("early");
  EXPECT_THAT(
      cluster.Why("early"),
      HasSubstr("start `baton-worker --roles rollout` of the same release as the controller"));
  EXPECT_THAT(cluster.Create(cluster.RlSpec(2), "late").status().ToString(),
              AllOf(HasSubstr("spec.model.chat_template"),
                    HasSubstr("no attached worker of role rollout reads chat templates")));
  cluster.AddWorker("rollout-0", "rollout");
  cluster.AddWorker("rollout-1", "rollout");
  ASSERT_TRUE(cluster.WaitForState("early", Job::STATE_SUCCEEDED)) << cluster.Why("early");
  EXPECT_EQ(own.asked(), 0);
}

// Its rollout would leave out the line's variables without a word.
TEST(OffersTest, LinesWithSettingsOfTheirOwnNeedAWorkerThatKnowsThem) {
  TestCluster cluster;
  cluster.AddWorker("actor-0", "actor");
  cluster.AddWorker("reward-0", "reward");
  UsersWorker own(cluster, "rollout", {"generate", "load_weights"});
  ASSERT_TRUE(WaitFor([&] { return cluster.Workers().size() == 3; }));
  v1::JobSpec spec = cluster.RlSpec(2);
  spec.mutable_model()->set_chat_template("none");
  ASSERT_TRUE(cluster.Create(spec, "plain").ok());
  spec.mutable_data()->set_train_files(
      0, cluster.WriteFile("own.jsonl",
                           R"({"prompt": "1+1=", "answer": "2", "chat_template_kwargs": {"a": 1}})"
                           "\n"));
  EXPECT_THAT(cluster.Create(spec, "own").status().ToString(),
              AllOf(HasSubstr("spec.data"), HasSubstr("gives chat templates their settings")));
}

// A rollout of the user's own, which knows every template of the job and not its model.
TEST(OffersTest, AWorkerThatCannotLoadTheModelIsNotEnough) {
  TestCluster cluster;
  cluster.AddWorker("actor-0", "actor");
  cluster.AddWorker("reward-0", "reward");
  ASSERT_TRUE(WaitFor([&] { return cluster.Workers().size() == 2; }));
  v1::JobSpec spec = cluster.RlSpec(2);
  const std::string model = cluster.folder() + "/qwen3";
  std::filesystem::create_directories(model);
  std::ofstream(model + "/config.json")
      << R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"})";
  std::ofstream(model + "/weights.json") << R"({"weights": "0123456789abcdef"})";  // the fake's
  spec.mutable_model()->clear_init();
  spec.mutable_model()->set_path(model);
  spec.mutable_model()->set_chat_template("none");
  const auto early = cluster.Create(spec, "early");  // no rollout is known yet
  ASSERT_TRUE(early.ok()) << early.status();
  EXPECT_THAT(early->model_features(), ElementsAre("model_qwen3"));
  UsersWorker own(cluster, "rollout", {"generate", "load_weights"});
  EXPECT_TRUE(WaitFor([&] {
    return cluster.Why("early").find(
               "no attached worker of role rollout loads models of type qwen3") !=
           std::string::npos;
  })) << cluster.Why("early");
  EXPECT_THAT(cluster.Create(spec, "late").status().ToString(),
              AllOf(HasSubstr("spec.model.path"),
                    HasSubstr("no attached worker of role rollout loads models of type qwen3")));
  cluster.StopController();
  cluster.StartController();  // the job's row says what it needs
  EXPECT_TRUE(WaitFor([&] {
    return cluster.Why("early").find("loads models of type qwen3") != std::string::npos;
  })) << cluster.Why("early");
  cluster.AddWorker("rollout-0", "rollout");
  cluster.AddWorker("rollout-1", "rollout");
  ASSERT_TRUE(cluster.WaitForState("early", Job::STATE_SUCCEEDED)) << cluster.Why("early");
  EXPECT_EQ(own.asked(), 0);
}

TEST(OffersTest, RefusesAMethodThatNoWorkerOffersAndListsTheOffered) {
  TestCluster cluster;
  UsersWorker own(cluster, "compute_brevity");
  EXPECT_THAT(
      cluster.Create(WithMethod(cluster.RlSpec(2), "compute_brevty"), "j").status().ToString(),
      AllOf(HasSubstr("spec.reward.method"),
            HasSubstr("no attached worker of role reward offers method compute_brevty; "
                      "offered are: compute_brevity"),
            Not(HasSubstr("assign_role"))));
  EXPECT_THAT(cluster.Create(cluster.RlSpec(2), "j").status().ToString(),
              HasSubstr("offers method compute_reward"));
}

TEST(OffersTest, AJobWhoseWorkerIsGoneSaysWhichMethodItWaitsFor) {
  TestCluster cluster(absl::Milliseconds(500));
  cluster.AddStandardWorkers();
  {
    UsersWorker own(cluster, "compute_brevity");
    ASSERT_TRUE(WaitFor([&] { return cluster.Workers().size() == 5; }));
  }
  ASSERT_TRUE(WaitFor([&] { return cluster.Workers().size() == 4; }));
  ASSERT_TRUE(cluster.Create(WithMethod(cluster.RlSpec(2), "compute_brevity"), "j").ok());
  EXPECT_THAT(cluster.Why("j"),
              AllOf(HasSubstr("no attached worker of role reward offers method compute_brevity"),
                    HasSubstr("start the worker that serves method compute_brevity of role "
                              "reward")));
  UsersWorker again(cluster, "compute_brevity");
  ASSERT_TRUE(cluster.WaitForState("j", Job::STATE_SUCCEEDED)) << cluster.Why("j");
  EXPECT_EQ(cluster.Get("j").metrics().at("critic/score/mean"), kOwnReward);
}

}  // namespace
}  // namespace baton::testing
