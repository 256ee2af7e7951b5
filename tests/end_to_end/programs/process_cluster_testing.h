// A whole service as processes of their own: controller, fake workers and the command line.
#ifndef BATON_TESTS_END_TO_END_PROGRAMS_PROCESS_CLUSTER_TESTING_H_
#define BATON_TESTS_END_TO_END_PROGRAMS_PROCESS_CLUSTER_TESTING_H_

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end/in_process/undisturbed.h"
#include "tests/end_to_end/programs/process_testing.h"

namespace baton::testing {

/// A program's output and exit code.
struct Printed {
  std::string text;
  int code = -1;
};

/// Fixture. Everything is in client_.folder(), which goes with the test.
class ProcessTest : public ::testing::Test {
 protected:
  std::string Folder(const std::string& name) const { return client_.folder() + "/" + name; }

  /// Starts the controller on data_root_, at the address of the last one.
  void StartController(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {
        "baton-controller", "--listen",        listen_, "--http",    "127.0.0.1:0", "--data-root",
        data_root_,         "--lease-seconds", "2",     "--checker", "none"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    controller_ = std::make_unique<Process>(arguments,
                                            Folder(absl::StrCat("controller-", ++starts_, ".log")));
    const std::string port = controller_->WaitForLog("grpc_port=");
    ASSERT_THAT(port, ::testing::Not(::testing::IsEmpty())) << controller_->Log();
    listen_ = "127.0.0.1:" + port;
    http_port_ = std::atoi(controller_->WaitForLog("http_port=").c_str());
    client_.Connect(listen_);
  }
  void StartWorker(const std::string& id, const std::string& role,
                   const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {
        "baton-fake-worker", "--controller",   listen_, "--roles", role, "--id", id,
        "--weights-dir",     Folder("weights")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    workers_[id] = nullptr;  // the old process is gone before the new one comes
    workers_[id] = std::make_unique<Process>(arguments, Folder(id + ".log"));
  }
  /// Controller, one actor, two rollouts, one reward.
  void StartCluster(const std::string& token_ms = "0.3") {
    StartController();
    StartWorker("actor-0", "actor");
    StartWorker("rollout-0", "rollout", {"--token-ms", token_ms});
    StartWorker("rollout-1", "rollout", {"--token-ms", token_ms});
    StartWorker("reward-0", "reward");
  }
  /// `baton` with these arguments, at this controller.
  Printed Cli(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"baton", "--controller", listen_};
    all.insert(all.end(), arguments.begin(), arguments.end());
    Process process(all, Folder(absl::StrCat("cli-", ++calls_, ".log")));
    const int code = process.Wait();
    return {process.Log(), code};
  }
  /// A job of client_.RlSpec(kSteps) ends as if nothing had disturbed it.
  void ExpectTheSameEnd(const std::string& job = "rl") {
    ASSERT_TRUE(client_.WaitForState(job, v1::Job::STATE_SUCCEEDED, absl::Seconds(20)))
        << client_.Why(job) << client_.Get(job).DebugString() << controller_->Log();
    EXPECT_EQ(WeightsHash(client_.FinalWeights(job)), UndisturbedHash());
  }

  TestClient client_;
  std::string data_root_ = Folder("data");
  std::string listen_ = "127.0.0.1:0";
  int http_port_ = 0;
  int starts_ = 0, calls_ = 0;
  std::unique_ptr<Process> controller_;
  std::map<std::string, std::unique_ptr<Process>> workers_;
};

}  // namespace baton::testing

#endif  // BATON_TESTS_END_TO_END_PROGRAMS_PROCESS_CLUSTER_TESTING_H_
