// A relay that is killed and started again under a publisher and a reader.
#include "workers/policy/weights_relay.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::policy {
namespace {

constexpr char kJob[] = "projects/default/jobs/j";

class WeightsRelayTest : public ::testing::Test {
 protected:
  WeightsRelayTest() {
    char folder[] = "/tmp/baton-weights-relay-XXXXXX";
    folder_ = mkdtemp(folder);
    StartRelay("127.0.0.1:0");
    relay_ = MakeWeightsRelay(address_, "", "test").value();
  }
  ~WeightsRelayTest() override {
    KillRelay();
    std::filesystem::remove_all(folder_);
  }

  void StartRelay(const std::string& listen) {
    const std::string log = absl::StrCat(folder_, "/log-", ++starts_);
    const char* build = std::getenv("BATON_BUILD_DIR");
    const std::string program =
        absl::StrCat(build == nullptr ? "build" : build, "/bin/baton-relay");
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      freopen(log.c_str(), "w", stdout);
      dup2(STDOUT_FILENO, STDERR_FILENO);
      execl(program.c_str(), program.c_str(), "--listen", listen.c_str(), "--shm-dir",
            folder_.c_str(), nullptr);
      _exit(127);
    }
    for (int i = 0; i < 500; ++i) {
      std::ostringstream text;
      text << std::ifstream(log).rdbuf();
      const std::string key = "listening on ";
      const size_t at = text.str().find(key);
      if (at != std::string::npos && text.str().find('\n', at) != std::string::npos) {
        std::istringstream(text.str().substr(at + key.size())) >> address_;
        return;
      }
      absl::SleepFor(absl::Milliseconds(10));
    }
    FAIL() << "the relay did not start";
  }
  void KillRelay() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  static engine::WeightsImage Image(float value) {
    return engine::WeightsImage::Create({{"w", torch::full({4}, value)}}, {}, {}).value();
  }
  absl::Status Publish(uint64_t version, bool fork = false, const Cancelled& cancelled = nullptr) {
    return relay_->Publish(kJob, version, Image(static_cast<float>(version)), fork, cancelled);
  }
  absl::Status Load(uint64_t version) {
    return relay_->Load(kJob, version, nullptr,
                        [](absl::Span<const uint8_t>) { return absl::OkStatus(); });
  }

  std::string folder_, address_;
  int starts_ = 0;
  pid_t pid_ = 0;
  std::unique_ptr<WeightsRelay> relay_;
};

TEST_F(WeightsRelayTest, ARelayThatIsStartingAgainIsWaitedFor) {
  ASSERT_TRUE(Publish(1).ok());
  ASSERT_TRUE(Load(1).ok());
  KillRelay();
  absl::Status published;
  std::thread publisher([&] { published = Publish(2); });
  absl::SleepFor(absl::Milliseconds(500));
  StartRelay(address_);
  publisher.join();
  EXPECT_TRUE(published.ok()) << published;
  EXPECT_TRUE(Load(2).ok());

  KillRelay();
  absl::Status loaded;
  std::thread reader([&] { loaded = Load(2); });
  absl::SleepFor(absl::Milliseconds(300));
  StartRelay(address_);
  reader.join();
  EXPECT_TRUE(absl::IsNotFound(loaded)) << loaded << ": the new relay is empty, and says so";
}

TEST_F(WeightsRelayTest, NobodyWaitsForACancelledTask) {
  KillRelay();
  std::atomic<bool> cancelled{false};
  absl::Status published;
  std::thread publisher([&] { published = Publish(1, false, [&] { return cancelled.load(); }); });
  absl::SleepFor(absl::Milliseconds(100));
  cancelled = true;
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

}  // namespace
}  // namespace baton::policy
