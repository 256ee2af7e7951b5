// A relay that is killed and started again under a publisher and a reader.
#include "workers/policy/weights_relay.h"

#include <functional>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "relay/client/relay_client.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/test_folder.h"
#include "tests/support/relay/relay_process.h"
#include "tests/support/workers/policy.h"
#include "tests/support/workers/weights_relay.h"

namespace baton::policy {
namespace {

constexpr char kJob[] = "projects/default/jobs/j";

class WeightsRelayTest : public ::testing::Test {
 protected:
  WeightsRelayTest() {
    StartRelay("127.0.0.1:0");
    relay_ = WeightsRelay::Create({address_}, "test").value();
  }

  void StartRelay(const std::string& listen) {
    process_ = std::make_unique<relay::RelayProcess>(std::vector<std::string>{
        "--listen", listen, "--shm-dir", folder_.path(), "--log-file", folder_.path("log"),
        "--max-bytes", "1000000"});  // what is free depends on its segments alone
    address_ = process_->address();
    ASSERT_THAT(process_->line(), ::testing::HasSubstr("listening on "));
  }
  void KillRelay() { process_.reset(); }

  static engine::WeightsImage Image(float value) {
    return engine::WeightsImage::Create({{"w", torch::full({4}, value)}}, {}, {}).value();
  }
  absl::Status Publish(uint64_t version, const absl::Notification& cancelled = Never()) {
    return PublishImage(*relay_, {kJob, version, false, ""}, Image(static_cast<float>(version)),
                        cancelled);
  }
  absl::Status Load(uint64_t version) {
    return relay_->Load({kJob, version}, Never(),
                        [](absl::Span<const uint8_t>) { return absl::OkStatus(); });
  }

  /// Runs `call` on another thread until it has said that the relay cannot be reached.
  std::thread WaitInVain(std::function<void()> call) {
    absl::Notification told;
    SetLogForwarder([&told](LogLevel, absl::string_view line) {
      if (absl::StrContains(line, "cannot be reached") && !told.HasBeenNotified()) told.Notify();
    });
    std::thread thread(std::move(call));
    EXPECT_TRUE(told.WaitForNotificationWithTimeout(absl::Seconds(30)));
    SetLogForwarder(nullptr);
    return thread;
  }

  const TestFolder folder_;
  std::string address_;
  std::unique_ptr<relay::RelayProcess> process_;
  std::unique_ptr<WeightsRelay> relay_;
};

TEST_F(WeightsRelayTest, ARelayThatIsStartingAgainIsWaitedFor) {
  ASSERT_TRUE(Publish(1).ok());
  ASSERT_TRUE(Load(1).ok());
  KillRelay();
  absl::Status published;
  std::thread publisher = WaitInVain([&] { published = Publish(2); });
  StartRelay(address_);
  publisher.join();
  EXPECT_TRUE(published.ok()) << published;
  EXPECT_TRUE(Load(2).ok());

  KillRelay();
  absl::Status loaded;
  std::thread reader = WaitInVain([&] { loaded = Load(2); });
  StartRelay(address_);
  reader.join();
  EXPECT_TRUE(absl::IsNotFound(loaded)) << loaded << ": the new relay is empty, and says so";
}

TEST_F(WeightsRelayTest, StopsWaitingForACancelledTask) {
  KillRelay();
  absl::Notification cancelled;
  absl::Status published;
  std::thread publisher = WaitInVain([&] { published = Publish(1, cancelled); });
  cancelled.Notify();
  publisher.join();
  EXPECT_TRUE(absl::IsCancelled(published)) << published;
}

TEST_F(WeightsRelayTest, AForgottenJobTakesNoMemory) {
  ASSERT_TRUE(Publish(1).ok());
  ASSERT_TRUE(Publish(2).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Publish(2)));
  relay_->Forget(kJob);
  EXPECT_TRUE(absl::IsNotFound(Load(2)));
  relay_->Forget(kJob);
  ASSERT_TRUE(Publish(1).ok()) << "what was dropped may come again";
  EXPECT_TRUE(Load(1).ok());
}

TEST_F(WeightsRelayTest, AVersionThatRolloutsStillNeedIsKept) {
  for (uint64_t version = 1; version <= 6; ++version) {
    Publication what = {kJob, version, false, ""};
    if (version > 1) what.keep_versions = {1};
    ASSERT_TRUE(PublishImage(*relay_, what, Image(static_cast<float>(version))).ok());
  }
  EXPECT_TRUE(Load(1).ok());
  EXPECT_TRUE(Load(6).ok());
  EXPECT_TRUE(absl::IsNotFound(Load(2)));
  ASSERT_TRUE(Publish(7).ok());
  EXPECT_TRUE(absl::IsNotFound(Load(1))) << "it is not needed any more";
}

TEST_F(WeightsRelayTest, AForkDropsLaterVersions) {
  for (uint64_t version = 1; version <= 3; ++version) ASSERT_TRUE(Publish(version).ok());
  ASSERT_TRUE(PublishImage(*relay_, {kJob, 2, true, ""}, Image(2)).ok());
  EXPECT_TRUE(Load(2).ok());
  EXPECT_TRUE(absl::IsNotFound(Load(3)));
}

// The publisher's rank was lost, or its job was cancelled, before the version was sealed.
TEST_F(WeightsRelayTest, AForgottenVersionThatWasNeverSealedTakesNoMemory) {
  auto client = relay::RelayClient::Create({address_}).value();
  const auto free = client->List("").value().free_bytes();
  const auto layout = Image(1).layout();
  {
    auto writer = relay_->Begin({kJob, 1, false, ""}, layout, 1, Never()).value();
    EXPECT_LT(client->List("").value().free_bytes(), free);
  }
  relay_->Forget(kJob);
  EXPECT_EQ(client->List("").value().free_bytes(), free);
}

}  // namespace
}  // namespace baton::policy
