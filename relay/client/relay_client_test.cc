// RelayClient against the real baton-relay, as a process of its own that can be killed.
#include "relay/client/relay_client.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "relay/weights/safetensors_writer.h"
#include "sdk/base/shared_key.h"
#include "sdk/rpc/error.h"

namespace baton::relay {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

/// A running baton-relay on a port of its own choice.
class RelayProcess {
 public:
  explicit RelayProcess(std::vector<std::string> args) {
    args.insert(args.begin(), std::string(std::getenv("BATON_BUILD_DIR")) + "/bin/baton-relay");
    int out[2];
    if (pipe2(out, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(out[1], 1);
      dup2(out[1], 2);
      std::vector<char*> argv;
      for (std::string& arg : args) argv.push_back(arg.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    close(out[1]);
    char c = 0;
    while (read(out[0], &c, 1) == 1 && c != '\n') line_ += c;
    close(out[0]);
  }
  ~RelayProcess() {
    if (pid_ > 0) Stop(SIGKILL);
  }

  /// Signals it (0: does not) and waits for its end; the exit code, or minus the signal that ended
  /// it.
  int Stop(int signal) {
    kill(pid_, signal);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// Its first line of output.
  const std::string& line() const { return line_; }
  std::string address() const { return line_.substr(line_.rfind(' ') + 1); }

 private:
  pid_t pid_ = 0;
  std::string line_;
};

class RelayClientTest : public ::testing::Test {
 protected:
  RelayClientTest() {
    char path[] = "/tmp/baton-relay-client-XXXXXX";
    dir_ = mkdtemp(path);
  }
  ~RelayClientTest() override {
    client_.reset();
    relay_.reset();
    std::filesystem::remove_all(dir_);
  }

  std::vector<std::string> Arguments(const std::string& listen) const {
    return {"--listen", listen, "--shm-dir", dir_, "--log-file", dir_ + "/log"};
  }

  void Start(std::vector<std::string> extra = {}, const std::string& token = "") {
    std::vector<std::string> args = Arguments("127.0.0.1:0");
    args.insert(args.end(), extra.begin(), extra.end());
    relay_ = std::make_unique<RelayProcess>(args);
    RelayClientOptions options;
    options.address = relay_->address();
    options.token = token;
    client_ = RelayClient::Create(options).value();
  }

  PublishOptions Version(uint64_t version) const {
    PublishOptions options;
    options.job = "addition";
    options.policy_version = version;
    options.header = layout_.header();
    options.size_bytes = layout_.file_size();
    return options;
  }

  absl::StatusOr<v1::SegmentInfo> Publish(const PublishOptions& options, uint8_t value) {
    return client_->Publish(options, [&](absl::Span<uint8_t> bytes) {
      EXPECT_EQ(std::memcmp(bytes.data(), layout_.header().data(), layout_.header().size()), 0);
      layout_.WriteHeader(bytes);
      std::memset(bytes.data() + layout_.data_offset(), value, 40);
      return absl::OkStatus();
    });
  }

  absl::StatusOr<std::unique_ptr<LeasedSegment>> Acquire(std::optional<uint64_t> version = {}) {
    AcquireOptions options;
    options.job = "addition";
    options.policy_version = version;
    options.holder = "test";
    return client_->Acquire(options);
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
      if (entry.path().filename() != "log") files.push_back(entry.path());
    }
    return files;
  }

  std::string dir_;
  const SafetensorsLayout layout_ = SafetensorsLayout::Create({{"w", DType::kF32, {10}}}).value();
  std::unique_ptr<RelayProcess> relay_;
  std::unique_ptr<RelayClient> client_;
};

TEST_F(RelayClientTest, WhatIsPublishedIsWhatIsLoaded) {
  Start();
  const auto info = Publish(Version(0), 9);
  ASSERT_TRUE(info.ok()) << info.status();
  const auto segment = Acquire(0);
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ((*segment)->policy_version(), 0u);
  ASSERT_THAT((*segment)->view().entries(), SizeIs(1));
  EXPECT_EQ((*segment)->view().Data((*segment)->view().entries()[0]),
            absl::Span<const uint8_t>(std::vector<uint8_t>(40, 9)));
}

TEST_F(RelayClientTest, TheLeaseEndsWithTheSegment) {
  Start();
  ASSERT_TRUE(Publish(Version(1), 1).ok());
  {
    const auto segment = Acquire();
    ASSERT_TRUE(segment.ok());
    EXPECT_EQ(client_->List("addition")->segments(0).leases(), 1);
  }
  EXPECT_EQ(client_->List("addition")->segments(0).leases(), 0);
}

TEST_F(RelayClientTest, BytesThatChangedAfterTheSealAreNotUsed) {
  Start();
  const auto info = Publish(Version(1), 1).value();
  {
    std::fstream file(info.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put(99);
  }
  const auto segment = Acquire();
  EXPECT_TRUE(absl::IsDataLoss(segment.status())) << segment.status();
  EXPECT_THAT(std::string(segment.status().message()), HasSubstr("tensor \"w\""));
  EXPECT_EQ(client_->List("addition")->segments(0).leases(), 0);
}

TEST_F(RelayClientTest, AFillThatFailsPublishesNothing) {
  Start();
  const auto failed = client_->Publish(
      Version(1), [](absl::Span<uint8_t>) { return absl::AbortedError("changed my mind"); });
  EXPECT_TRUE(absl::IsAborted(failed.status()));
  EXPECT_EQ(ErrorReason(Acquire().status()), "VERSION_NOT_FOUND");
  EXPECT_TRUE(Publish(Version(1), 1).ok());
}

TEST_F(RelayClientTest, ARelayThatIsStartedAgainBetweenBeginAndSealGetsTheVersion) {
  Start();
  int fills = 0;
  const auto published = client_->Publish(Version(1), [&](absl::Span<uint8_t> bytes) {
    std::memset(bytes.data() + layout_.data_offset(), 7, 40);
    if (++fills > 1) return absl::OkStatus();
    const std::string address = relay_->address();
    EXPECT_EQ(relay_->Stop(SIGKILL), -SIGKILL);
    relay_ = std::make_unique<RelayProcess>(Arguments(address));
    // The channel has noticed; else the first call tells that the relay was gone.
    while (absl::IsUnavailable(client_->List().status())) {
    }
    return absl::OkStatus();
  });
  ASSERT_TRUE(published.ok()) << published.status();
  EXPECT_EQ(fills, 2);
  EXPECT_EQ((*Acquire(1))->bytes().back(), 7);
}

TEST_F(RelayClientTest, APublisherThatGoesBeforeSealIsReplaced) {
  Start();
  {
    // To the relay this is what a killed publisher is: it is never heard of again.
    RelayClientOptions options;
    options.address = relay_->address();
    const auto gone = RelayClient::Create(options).value();
    const auto writer = gone->Begin(Version(1));
    ASSERT_TRUE(writer.ok()) << writer.status();
    std::memset((*writer)->bytes().data() + layout_.data_offset(), 66, 40);
    ASSERT_TRUE((*writer)->Commit().ok());
  }
  EXPECT_EQ(ErrorReason(Acquire(1).status()), "VERSION_NOT_FOUND");
  const auto info = Publish(Version(1), 1);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ((*Acquire(1))->bytes().back(), 1);
  EXPECT_THAT(Files(), SizeIs(2)) << "its file is gone";
}

TEST_F(RelayClientTest, ErrorsKeepTheirReasonAndSayWhichRelay) {
  Start({"--max-bytes", "1000"});
  PublishOptions large = Version(1);
  const auto layout = SafetensorsLayout::Create({{"w", DType::kF32, {1000}}}).value();
  large.header = layout.header();
  large.size_bytes = layout.file_size();
  const auto refused = client_->Begin(large);
  EXPECT_EQ(ErrorReason(refused.status()), "SHARED_MEMORY");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr(relay_->address()));
  EXPECT_TRUE(absl::IsInvalidArgument(RelayClient::Create({}).status()));
}

TEST_F(RelayClientTest, ATokenIsSent) {
  std::ofstream(dir_ + "/token") << "secret\n";
  std::filesystem::permissions(dir_ + "/token", std::filesystem::perms(0600));
  Start({"--token-file", dir_ + "/token"}, "secret");
  EXPECT_TRUE(client_->List().ok());
  RelayClientOptions without;
  without.address = relay_->address();
  EXPECT_EQ(ErrorReason(RelayClient::Create(without).value()->List().status()), "TOKEN_INVALID");
}

TEST_F(RelayClientTest, ACapabilityGoesWithWhatIsPublished) {
  const std::string file = dir_ + "/key";
  ASSERT_TRUE(MakeKeyFile(file).ok());
  const std::string key = ReadKeyFile("--key", file).value();
  Start({"--capability-key-file", file});
  PublishOptions version = Version(1);
  for (const std::string& wrong : {std::string(), PublishCapability(key, "another")}) {
    version.capability = wrong;
    EXPECT_EQ(ErrorReason(Publish(version, 1).status()), "CAPABILITY");
  }
  version.capability = PublishCapability(key, "addition");
  const auto one = Publish(version, 1);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_TRUE(Acquire(1).ok()) << "readers need none";
  EXPECT_EQ(ErrorReason(client_->Drop({one->segment_id()})), "CAPABILITY");
  EXPECT_TRUE(client_->Drop({one->segment_id()}, version.capability).ok());
  EXPECT_EQ(ErrorReason(Acquire(1).status()), "VERSION_NOT_FOUND");
}

TEST_F(RelayClientTest, AKeyFileThatIsNoneIsAClearError) {
  RelayProcess relay(
      {"--listen", "127.0.0.1:0", "--shm-dir", dir_, "--capability-key-file", dir_ + "/nowhere"});
  EXPECT_NE(relay.Stop(0), 0);
}

TEST_F(RelayClientTest, WhatIsDroppedIsFoundNoMore) {
  Start();
  const auto one = Publish(Version(1), 1);
  ASSERT_TRUE(one.ok()) << one.status();
  ASSERT_TRUE(Publish(Version(2), 2).ok());
  ASSERT_TRUE(client_->Drop({one->segment_id(), "unknown"}).ok());
  EXPECT_EQ(ErrorReason(Acquire(1).status()), "VERSION_NOT_FOUND");
  EXPECT_TRUE(Acquire(2).ok());
}

TEST_F(RelayClientTest, SigtermRemovesEverything) {
  Start();
  ASSERT_TRUE(Publish(Version(1), 1).ok());
  EXPECT_THAT(Files(), SizeIs(2)) << "a segment and the lock";
  EXPECT_EQ(relay_->Stop(SIGTERM), 0);
  EXPECT_THAT(Files(), SizeIs(0));
}

TEST_F(RelayClientTest, TheNextRelayRemovesWhatAKilledOneLeft) {
  Start();
  ASSERT_TRUE(Publish(Version(1), 1).ok());
  std::vector<std::string> another = Arguments("127.0.0.1:0");
  another.insert(another.end(), {"--shm-prefix", "another"});
  RelayProcess other(another);
  EXPECT_EQ(relay_->Stop(SIGKILL), -SIGKILL);
  EXPECT_THAT(Files(), SizeIs(3)) << "a segment and two locks";
  Start();
  EXPECT_THAT(Files(), SizeIs(2)) << "the locks of the two that live";
  EXPECT_EQ(ErrorReason(Acquire().status()), "VERSION_NOT_FOUND");
}

TEST_F(RelayClientTest, ARelayThatCannotStartSaysWhy) {
  RelayProcess no_dir({"--listen", "127.0.0.1:0", "--shm-dir", dir_ + "/none"});
  EXPECT_THAT(no_dir.line(), HasSubstr(dir_ + "/none"));
  Start();
  RelayProcess port(Arguments(relay_->address()));
  EXPECT_THAT(port.line(), HasSubstr("in use"));
  RelayProcess open(Arguments("0.0.0.0:0"));
  EXPECT_THAT(open.line(), HasSubstr("--token-file"));
  EXPECT_EQ(open.Stop(0), 1);
}

}  // namespace
}  // namespace baton::relay
