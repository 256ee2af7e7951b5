// RelayClient against the real baton-relay, as a process of its own that can be killed.
#include "relay/client/relay_client.h"

#include <signal.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "relay/weights/safetensors_writer.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/contracts/shared_key.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/relay/relay_process.h"

namespace baton::relay {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class RelayClientTest : public ::testing::Test {
 protected:
  std::vector<std::string> Arguments(const std::string& listen) const {
    return {"--listen", listen, "--shm-dir", dir_.path(), "--log-file", dir_.path("log")};
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
    BATON_ASSIGN_OR_RETURN(const auto writer, client_->Begin(options));
    const absl::Span<uint8_t> bytes = writer->bytes();
    EXPECT_EQ(std::memcmp(bytes.data(), layout_.header().data(), layout_.header().size()), 0);
    std::memset(bytes.data() + layout_.data_offset(), value, 40);
    BATON_RETURN_IF_ERROR(writer->Commit(0, WholeTensors(layout_.entries())));
    return writer->Seal();
  }

  /// Elements [begin, end) of the one tensor.
  static TensorBox Part(int64_t begin, int64_t end) { return {"w", {{begin}, {end}}}; }

  absl::StatusOr<std::unique_ptr<LeasedSegment>> Acquire(std::optional<uint64_t> version = {}) {
    AcquireOptions options;
    options.job = "addition";
    options.policy_version = version;
    options.holder = "test";
    return client_->Acquire(options);
  }

  std::vector<std::string> Files() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      if (entry.path().filename() != "log") files.push_back(entry.path());
    }
    return files;
  }

  const TestFolder dir_;
  const SafetensorsLayout layout_ = SafetensorsLayout::Create({{"w", DType::kF32, {10}}}).value();
  std::unique_ptr<RelayProcess> relay_;
  std::unique_ptr<RelayClient> client_;
};

TEST_F(RelayClientTest, LoadsWhatWasPublished) {
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

TEST_F(RelayClientTest, RanksWriteTheirBoxesAndReadersVerifyEach) {
  Start();
  PublishOptions options = Version(1);
  options.world_size = 2;
  const auto first = client_->Begin(options).value();
  const auto second = client_->Join(first->place(), layout_.file_size(), "").value();
  const auto data = [&](SegmentWriter& writer) {
    return writer.bytes().data() + layout_.data_offset();
  };
  std::memset(data(*first), 1, 24);
  ASSERT_TRUE(first->Commit(0, {Part(0, 6)}).ok());
  EXPECT_EQ(ErrorReason(first->Seal().status()), "INCOMPLETE") << "rank 1 still writes";
  EXPECT_EQ(ErrorReason(Acquire(1).status()), "VERSION_NOT_FOUND");
  std::memset(data(*second) + 24, 2, 16);
  ASSERT_TRUE(second->Commit(1, {Part(6, 10)}).ok());
  const auto info = first->Seal();
  ASSERT_TRUE(info.ok()) << info.status();
  ASSERT_EQ(info->tensors_size(), 2);
  EXPECT_EQ(info->tensors(1).begin(0), 6);
  const auto segment = Acquire(1);
  ASSERT_TRUE(segment.ok()) << segment.status();
  std::vector<uint8_t> want(24, 1);
  want.resize(40, 2);
  EXPECT_EQ((*segment)->view().Data((*segment)->view().entries()[0]),
            absl::Span<const uint8_t>(want));
  {
    std::fstream file(info->path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put(99);
  }
  const absl::Status lost = Acquire(1).status();
  EXPECT_TRUE(absl::IsDataLoss(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("\"w\" [6:10]"));
}

TEST_F(RelayClientTest, RefusesToSealAnIncompleteVersion) {
  Start();
  const auto writer = client_->Begin(Version(1)).value();
  ASSERT_TRUE(writer->Commit(0, {Part(0, 6), Part(7, 10)}).ok());
  const absl::Status refused = writer->Seal().status();
  EXPECT_EQ(ErrorReason(refused), "INCOMPLETE");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("[6:7] of tensor \"w\""));
}

TEST_F(RelayClientTest, AFileThatIsNotHereCannotBeJoined) {
  Start();
  const auto missing = client_->Join({"some-id", dir_.path("nowhere")}, layout_.file_size(), "");
  EXPECT_TRUE(absl::IsNotFound(missing.status())) << missing.status();
}

TEST_F(RelayClientTest, APublisherThatGoesBeforeSealIsReplaced) {
  Start();
  {
    // To the relay this looks like a killed publisher, which is never heard of again.
    RelayClientOptions options;
    options.address = relay_->address();
    const auto gone = RelayClient::Create(options).value();
    const auto writer = gone->Begin(Version(1));
    ASSERT_TRUE(writer.ok()) << writer.status();
    std::memset((*writer)->bytes().data() + layout_.data_offset(), 66, 40);
    ASSERT_TRUE((*writer)->Commit(0, WholeTensors(layout_.entries())).ok());
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
  EXPECT_EQ(ErrorReason(refused.status()), "SHARED_MEMORY_SIZE");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr(relay_->address()));
  EXPECT_TRUE(absl::IsInvalidArgument(RelayClient::Create({}).status()));
}

TEST_F(RelayClientTest, ATokenIsSent) {
  dir_.Write("token", "secret\n");
  std::filesystem::permissions(dir_.path("token"), std::filesystem::perms(0600));
  Start({"--token-file", dir_.path("token")}, "secret");
  EXPECT_TRUE(client_->List().ok());
  RelayClientOptions without;
  without.address = relay_->address();
  EXPECT_EQ(ErrorReason(RelayClient::Create(without).value()->List().status()), "TOKEN_INVALID");
}

TEST_F(RelayClientTest, ACapabilityGoesWithWhatIsPublished) {
  const std::string file = dir_.path("key");
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
  RelayProcess relay({"--listen", "127.0.0.1:0", "--shm-dir", dir_.path(), "--capability-key-file",
                      dir_.path("nowhere")});
  EXPECT_NE(relay.Stop(0), 0);
}

TEST_F(RelayClientTest, ADroppedVersionIsNotFound) {
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
  RelayProcess no_dir({"--listen", "127.0.0.1:0", "--shm-dir", dir_.path("none")});
  EXPECT_THAT(no_dir.line(), HasSubstr(dir_.path("none")));
  Start();
  RelayProcess port(Arguments(relay_->address()));
  EXPECT_THAT(port.line(), HasSubstr("in use"));
  RelayProcess open(Arguments("0.0.0.0:0"));
  EXPECT_THAT(open.line(), HasSubstr("--token-file"));
  EXPECT_EQ(open.Stop(0), 1);
}

}  // namespace
}  // namespace baton::relay
