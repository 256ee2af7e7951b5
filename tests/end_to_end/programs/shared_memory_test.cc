// Real programs and the real engine: the relay's shared memory is full while a trainer publishes.
// Relay and controller share a key, as `baton up` has them do.
#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "relay/client/relay_client.h"
#include "relay/weights/safetensors_writer.h"
#include "sdk/common/contracts/shared_key.h"
#include "tests/end_to_end/in_process/client_testing.h"
#include "tests/end_to_end/programs/process_testing.h"

namespace baton::testing {
namespace {

using ::testing::HasSubstr;
using v1::Job;

constexpr int kSteps = 5;
constexpr char kMaxBytes[] = "16777216";

class SharedMemoryTest : public ::testing::Test {
 protected:
  std::string Folder(const std::string& name) const { return client_.folder() + "/" + name; }
  void Start(const std::string& name, std::vector<std::string> arguments) {
    processes_[name] = std::make_unique<Process>(std::move(arguments), Folder(name + ".log"));
  }
  void StartWorker(const std::string& id, const std::string& role) {
    Start(id, {"baton-worker", "--controller", controller_, "--roles", role, "--id", id, "--relay",
               relay_address_});
  }

  void SetUp() override {
    ASSERT_TRUE(MakeKeyFile(Folder("relay.key")).ok());
    key_ = ReadKeyFile("key", Folder("relay.key")).value();
    StartRelay("relay", kMaxBytes);
  }
  void StartRelay(const std::string& name, const std::string& max_bytes) {
    Start(name, {"baton-relay", "--listen", "127.0.0.1:0", "--shm-dir", client_.folder(),
                 "--max-bytes", max_bytes, "--capability-key-file", Folder("relay.key")});
    relay_address_ = processes_.at(name)->WaitForLog("listening on ");
    ASSERT_THAT(relay_address_, HasSubstr("127.0.0.1:")) << processes_.at(name)->Log();
    relay::RelayClientOptions options;
    options.address = relay_address_;
    relay_ = relay::RelayClient::Create(options).value();
  }
  /// A controller with this key, and workers.
  void StartCluster(const std::string& key_file) {
    Start("controller", {"baton-controller", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
                         "--data-root", Folder("data"), "--relay-capability-key-file", key_file});
    controller_ = "127.0.0.1:" + processes_.at("controller")->WaitForLog("grpc_port=");
    client_.Connect(controller_);
    StartWorker("actor-0", "actor");
    StartWorker("rollout-0", "rollout");
    StartWorker("reward-0", "reward");
  }

  // Half of all texts end in 0 to 4: every step makes new weights.
  v1::JobSpec Spec() const {
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
    return spec;
  }

  /// Everything that is free, taken by another job. False: another job was faster.
  bool TakeAllMemory() {
    constexpr uint64_t kHeader = 4096;  // at most
    const auto list = relay_->List();
    if (!list.ok() || list->free_bytes() < 2 * kHeader) return false;
    const auto floats = static_cast<int64_t>((list->free_bytes() - kHeader) / sizeof(float));
    const auto layout =
        relay::SafetensorsLayout::Create({{"w", relay::DType::kF32, {floats}}}).value();
    relay::PublishOptions options;
    options.job = "projects/default/jobs/ballast";
    options.header = layout.header();
    options.size_bytes = layout.file_size();
    options.capability = PublishCapability(key_, options.job);
    const auto writer = relay_->Begin(options);
    if (!writer.ok()) return false;
    ballast_ = (*writer)->segment_id();
    return true;
  }
  void GiveMemoryBack() {
    const std::string capability = PublishCapability(key_, "projects/default/jobs/ballast");
    EXPECT_TRUE(relay_->Drop({ballast_}, capability).ok());
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
  std::string Story(const std::string& job) {
    return client_.Why(job) + client_.Get(job).DebugString() + processes_.at("actor-0")->Log();
  }

  TestClient client_;
  std::string key_, relay_address_, controller_, ballast_;
  std::map<std::string, std::unique_ptr<Process>> processes_;
  std::unique_ptr<relay::RelayClient> relay_;
};

TEST_F(SharedMemoryTest, FullSharedMemoryWithholdsThePublishUntilThereIsRoom) {
  StartCluster(Folder("relay.key"));
  ASSERT_EQ(client_.Create(Spec(), "calm").status(), absl::OkStatus());
  ASSERT_TRUE(client_.WaitForState("calm", Job::STATE_SUCCEEDED, absl::Seconds(60)))
      << Story("calm");
  const std::string calm = Weights("calm");
  ASSERT_GT(calm.size(), 10000u);

  ASSERT_EQ(client_.Create(Spec(), "rl").status(), absl::OkStatus());
  ASSERT_TRUE(client_.WaitForStep("rl", 1)) << Story("rl");
  ASSERT_TRUE(WaitFor([&] { return TakeAllMemory(); }));
  ASSERT_TRUE(WaitFor([&] {
    return client_.Why("rl").find("kind: \"space\"") != std::string::npos;
  })) << Story("rl");
  const std::string why = client_.Why("rl");
  EXPECT_THAT(why, HasSubstr("cause: \"room to publish"));
  EXPECT_THAT(why, HasSubstr(std::string("--max-bytes ") + kMaxBytes));
  EXPECT_THAT(why, HasSubstr(relay_address_));
  EXPECT_THAT(why, HasSubstr("deadline_in"));
  const Job held = client_.Get("rl");
  EXPECT_EQ(held.state(), Job::STATE_RUNNING);
  EXPECT_LT(held.step(), kSteps);
  // The publish is tried again, and nothing follows from it.
  const absl::Time later = absl::Now() + absl::Seconds(3);
  ASSERT_TRUE(WaitFor([&] { return absl::Now() > later; }));
  EXPECT_EQ(client_.Get("rl").step(), held.step());
  EXPECT_EQ(client_.Get("rl").state(), Job::STATE_RUNNING);
  EXPECT_THAT(client_.Why("rl"), HasSubstr("kind: \"space\""));

  GiveMemoryBack();
  ASSERT_TRUE(client_.WaitForState("rl", Job::STATE_SUCCEEDED, absl::Seconds(60))) << Story("rl");
  EXPECT_EQ(Weights("rl"), calm) << "not the same bytes";
  int warnings = 0;
  for (const v1::JobEvent& event : client_.Events("rl")) {
    if (event.type() != "warning") continue;
    ++warnings;
    EXPECT_THAT(event.message(), HasSubstr("no space to publish"));
  }
  EXPECT_EQ(warnings, 1);
}

// A wait for it would have no end, and would hold the job's workers.
TEST_F(SharedMemoryTest, AModelThatNeverFitsFailsItsJobWithTheRemedy) {
  StartRelay("small-relay", "20000");
  StartCluster(Folder("relay.key"));
  ASSERT_EQ(client_.Create(Spec(), "rl").status(), absl::OkStatus());
  ASSERT_TRUE(client_.WaitForState("rl", Job::STATE_FAILED, absl::Seconds(60))) << Story("rl");
  const std::string error = client_.Get("rl").error().message();
  EXPECT_THAT(error, HasSubstr("publish failed on worker actor-0"));
  EXPECT_THAT(error, HasSubstr("bytes can never fit"));
  EXPECT_THAT(error, HasSubstr("--shm-size"));
}

// The capability that the first test's relay asks for comes from the controller.
TEST_F(SharedMemoryTest, AControllerWithAnotherKeyCannotHaveItsTrainersPublish) {
  const std::string other = Folder("other.key");
  ASSERT_TRUE(MakeKeyFile(other).ok());
  StartCluster(other);
  ASSERT_EQ(client_.Create(Spec(), "rl").status(), absl::OkStatus());
  ASSERT_TRUE(client_.WaitForState("rl", Job::STATE_FAILED, absl::Seconds(60))) << Story("rl");
  const std::string error = client_.Get("rl").error().message();
  EXPECT_THAT(error, HasSubstr("publish failed on worker actor-0"));
  EXPECT_THAT(error, HasSubstr("another key than this relay's"));
  EXPECT_TRUE(relay_->List()->segments().empty());
}

}  // namespace
}  // namespace baton::testing
