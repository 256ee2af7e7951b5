// Real programs and the real engine: trainer and rollouts beside different relays, which pass each
// version on. A "host" is a folder for shared memory on a file system of its own.
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "relay/client/relay_client.h"
#include "sdk/common/contracts/shared_key.h"
#include "sdk/common/process/memory_id.h"
#include "tests/end_to_end/in_process/client_testing.h"
#include "tests/end_to_end/programs/process_testing.h"

namespace baton::testing {
namespace {

using ::testing::HasSubstr;
using v1::Job;

constexpr int kSteps = 6;

class TwoHostsTest : public ::testing::Test {
 protected:
  std::string Folder(const std::string& name) const { return client_.folder() + "/" + name; }
  void Start(const std::string& name, std::vector<std::string> arguments) {
    processes_[name] = std::make_unique<Process>(std::move(arguments), Folder(name + ".log"));
  }

  void SetUp() override {
    char memory[] = "/dev/shm/baton-two-hosts-XXXXXX";
    ASSERT_NE(mkdtemp(memory), nullptr);
    memory_["b"] = memory;
    memory_["a"] = client_.folder();
    if (MemoryId(memory_["a"]) == MemoryId(memory_["b"])) {
      GTEST_SKIP() << "the temporary folder and /dev/shm are one file system";
    }
    ASSERT_TRUE(MakeKeyFile(Folder("relay.key")).ok());
    Start("controller",
          {"baton-controller", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-root",
           Folder("data"), "--relay-capability-key-file", Folder("relay.key")});
    controller_ = "127.0.0.1:" + processes_.at("controller")->WaitForLog("grpc_port=");
    client_.Connect(controller_);
  }
  void TearDown() override {
    processes_.clear();
    if (memory_.count("b") > 0) std::filesystem::remove_all(memory_["b"]);
  }

  /// The address of the relay; workers of the host have no other way to learn it.
  std::string StartRelay(const std::string& host) {
    const std::string name = "relay-" + host;
    std::filesystem::remove(Folder(name + ".log"));  // of the one before
    std::string& listen = addresses_.try_emplace(host, "127.0.0.1:0").first->second;
    Start(name, {"baton-relay", "--listen", listen, "--shm-dir", memory_.at(host), "--id", name,
                 "--controller", controller_, "--chain-listen", "127.0.0.1:0",
                 "--capability-key-file", Folder("relay.key")});
    listen = processes_.at(name)->WaitForLog("listening on ");  // the same when it is started again
    EXPECT_NE(listen, "") << processes_.at(name)->Log();
    EXPECT_NE(processes_.at(name)->WaitForLog("attached to the controller"), "-");
    return listen;
  }
  void StartWorker(const std::string& host, const std::string& role) {
    const std::string id = role + "-" + host;
    Start(id, {"baton-worker", "--controller", controller_, "--roles", role, "--id", id,
               "--shm-dir", memory_.at(host)});
  }
  void StartWorkers(const std::string& rollouts_host) {
    StartWorker("a", "actor");
    StartWorker("a", "reward");
    StartWorker(rollouts_host, "rollout");
  }

  v1::JobSpec Spec(bool async) const {
    v1::JobSpec spec = client_.RlSpec(kSteps);
    v1::ModelInitSpec& init = *spec.mutable_model()->mutable_init();
    init.set_characters("0123456789+=");
    init.set_hidden_size(32);
    init.set_max_position_embeddings(128);
    spec.mutable_data()->clear_val_files();
    spec.mutable_data()->set_max_prompt_length(16);
    spec.mutable_data()->set_max_response_length(16);
    spec.mutable_data()->set_seed(7);
    spec.mutable_rollout()->set_deterministic(true);
    v1::RewardRule& rule = *spec.mutable_reward()->mutable_rules(0);
    rule.set_type("regex");
    rule.set_pattern("[0-4]$");
    spec.mutable_algorithm()->set_filter_groups(false);
    spec.mutable_actor()->set_lr(1e-3);
    spec.mutable_resources()->set_rollout_workers(1);
    if (async) spec.mutable_algorithm()->set_mode("async");
    return spec;
  }

  std::string Weights(const std::string& job) {
    v1::ListCheckpointsRequest request;
    request.set_name(job);
    grpc::ClientContext context;
    v1::ListCheckpointsResponse response;
    const auto status = client_.stub().ListCheckpoints(&context, request, &response);
    if (!status.ok() || response.checkpoints().empty()) return "";
    EXPECT_EQ(response.checkpoints(0).step(), kSteps);
    std::ifstream file(response.checkpoints(0).path() + "/actor/model.safetensors",
                       std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
  }
  std::string Run(const std::string& job, bool async = false) {
    EXPECT_EQ(client_.Create(Spec(async), job).status(), absl::OkStatus());
    EXPECT_TRUE(client_.WaitForState(job, Job::STATE_SUCCEEDED, absl::Seconds(120))) << Story(job);
    return Weights(job);
  }
  std::string Story(const std::string& job) {
    std::string story = client_.Why(job) + client_.Get(job).DebugString();
    for (const auto& [name, process] : processes_) {
      if (process != nullptr) story += name + ":\n" + process->Log();
    }
    return story;
  }
  std::vector<v1::SegmentInfo> SegmentsAt(const std::string& address) {
    relay::RelayClientOptions options;
    options.address = address;
    const auto client = relay::RelayClient::Create(options).value();
    const auto list = client->List();
    if (!list.ok()) return {};
    return {list->segments().begin(), list->segments().end()};
  }
  std::string OneHost() {
    StartRelay("a");
    StartWorkers("a");
    const std::string weights = Run("one-host");
    EXPECT_GT(weights.size(), 10000u);
    processes_["rollout-a"] = nullptr;
    return weights;
  }

  TestClient client_;
  std::string controller_;
  std::map<std::string, std::string> memory_, addresses_;  // by host
  std::map<std::string, std::unique_ptr<Process>> processes_;
};

TEST_F(TwoHostsTest, RolloutsOfAnotherHostGetEveryVersion) {
  const std::string expected = OneHost();
  const std::string address = StartRelay("b");
  StartWorker("b", "rollout");
  EXPECT_EQ(Run("two-hosts"), expected) << "not the same bytes";
  EXPECT_THAT(processes_.at("relay-b")->Log(), HasSubstr("place in a chain"));
  // The memory of a job that is over is given back.
  EXPECT_TRUE(WaitFor([&] { return SegmentsAt(address).empty(); })) << Story("two-hosts");
}

TEST_F(TwoHostsTest, AsyncJobsGoOnWhileVersionsTravel) {
  StartRelay("a");
  StartRelay("b");
  StartWorkers("b");
  EXPECT_GT(Run("async", /*async=*/true).size(), 10000u);
  EXPECT_EQ(client_.Get("async").step(), kSteps);
}

// The relay beside the trainer, or the one beside the rollouts.
TEST_F(TwoHostsTest, AKilledRelayIsMissedUntilItIsBack) {
  const std::string expected = OneHost();
  StartRelay("b");
  StartWorker("b", "rollout");
  for (const char* host : {"a", "b"}) {
    const std::string job = absl::StrCat("killed-", host);
    ASSERT_EQ(client_.Create(Spec(false), job).status(), absl::OkStatus());
    ASSERT_TRUE(client_.WaitForStep(job, 2)) << Story(job);
    processes_[absl::StrCat("relay-", host)] = nullptr;  // SIGKILL
    StartRelay(host);
    ASSERT_TRUE(client_.WaitForState(job, Job::STATE_SUCCEEDED, absl::Seconds(120))) << Story(job);
    EXPECT_EQ(Weights(job), expected) << "not the same bytes";
  }
}

}  // namespace
}  // namespace baton::testing
