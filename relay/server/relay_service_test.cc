#include <atomic>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "relay/segment/shared_file.h"
#include "relay/server/relay_server.h"
#include "relay/weights/mapped_file.h"
#include "relay/weights/safetensors_writer.h"
#include "sdk/common/contracts/shared_key.h"
#include "sdk/common/rpc/error.h"
#include "tests/support/relay/relay_service.h"

namespace baton::relay {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(RelayServiceTest, PublishesAVersionThatAnyoneCanMap) {
  Start();
  const v1::SegmentInfo sealed = Publish(0, 7);
  EXPECT_EQ(sealed.job(), kJob);
  EXPECT_EQ(sealed.size_bytes(), static_cast<uint64_t>(layout_.file_size()));
  const auto lease = Acquire(0);
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->segment().path(), sealed.path());
  EXPECT_EQ(lease->segment().leases(), 1);
  EXPECT_EQ(LastByte(lease->segment().path()), 7);
  const auto file = SafetensorsFile::Open(sealed.path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->view().entries().size(), 2u);
  EXPECT_TRUE(Release(lease->lease_id()).ok());
  EXPECT_EQ(ErrorReason(Release(lease->lease_id())), "LEASE_NOT_FOUND");
  EXPECT_GT(List().free_bytes(), 0u);
}

TEST_F(RelayServiceTest, AReaderNeverSeesAnUnsealedVersion) {
  Start();
  Publish(1, 1);
  const auto begun = Begin(2);
  ASSERT_TRUE(begun.ok());
  EXPECT_EQ(ErrorReason(Acquire(2).status()), "VERSION_NOT_FOUND");
  ASSERT_TRUE(Fill(*begun, 2).ok());
  EXPECT_EQ(ErrorReason(Acquire(2).status()), "VERSION_NOT_FOUND");
  EXPECT_EQ(Acquire({})->segment().policy_version(), 1u) << "the newest that is sealed";
  ASSERT_TRUE(Seal(begun->segment_id()).ok());
  EXPECT_EQ(Acquire({})->segment().policy_version(), 2u);
}

TEST_F(RelayServiceTest, SealRefusesBytesThatAreNotWhatWasCommitted) {
  Start();
  const auto begun = Begin(1).value();
  ASSERT_TRUE(Fill(begun, 1, /*lie=*/1).ok());
  const auto refused = Seal(begun.segment_id());
  EXPECT_TRUE(absl::IsDataLoss(refused.status())) << refused.status();
  EXPECT_EQ(ErrorReason(refused.status()), "CHECKSUM");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("tensor \"b\""));
  EXPECT_THAT(Versions(), IsEmpty());
  ASSERT_TRUE(Fill(begun, 1).ok()) << "it may be repaired";
  EXPECT_TRUE(Seal(begun.segment_id()).ok());
}

TEST_F(RelayServiceTest, SealRefusesAnOverwrittenHeader) {
  Start();
  const auto begun = Begin(1).value();
  ASSERT_TRUE(Fill(begun, 1).ok());
  {
    auto file = SharedFile::Open(begun.path(), static_cast<uint64_t>(layout_.file_size())).value();
    file->bytes()[20] ^= 1;
  }
  EXPECT_EQ(ErrorReason(Seal(begun.segment_id()).status()), "CHECKSUM");
  EXPECT_THAT(Versions(), IsEmpty());
}

TEST_F(RelayServiceTest, SealRefusesWhatIsIncomplete) {
  Start();
  const auto begun = Begin(1).value();
  EXPECT_EQ(ErrorReason(Seal(begun.segment_id()).status()), "INCOMPLETE");
  v1::CommitRequest half;
  half.set_segment_id(begun.segment_id());
  half.add_tensors()->set_name("w");
  ASSERT_TRUE(Call(&v1::RelayService::Stub::Commit, half).ok());
  const auto refused = Seal(begun.segment_id()).status();
  EXPECT_EQ(ErrorReason(refused), "INCOMPLETE");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("\"b\""));
  half.mutable_tensors(0)->set_name("no such");
  EXPECT_TRUE(absl::IsInvalidArgument(Call(&v1::RelayService::Stub::Commit, half).status()));
}

TEST_F(RelayServiceTest, SealMayBeRepeatedWhenItsAnswerWasLost) {
  Start();
  const auto begun = Begin(3).value();
  ASSERT_TRUE(Fill(begun, 3).ok());
  const auto first = Seal(begun.segment_id());
  const auto second = Seal(begun.segment_id());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(first->segment().path(), second->segment().path());
  EXPECT_EQ(ErrorReason(Seal("nothing").status()), "SEGMENT_NOT_FOUND");
}

TEST_F(RelayServiceTest, BeginAgainAfterAPublisherDied) {
  Start();
  const auto dead = Begin(1).value();
  ASSERT_TRUE(Fill(dead, 66).ok());
  const auto begun = Begin(1);
  ASSERT_TRUE(begun.ok()) << begun.status();
  EXPECT_NE(begun->path(), dead.path());
  EXPECT_EQ(ErrorReason(Seal(dead.segment_id()).status()), "SEGMENT_NOT_FOUND");
  EXPECT_EQ(ErrorReason(Fill(dead, 66)), "") << "its file is gone: " << Fill(dead, 66);
  ASSERT_TRUE(Fill(*begun, 1).ok());
  ASSERT_TRUE(Seal(begun->segment_id()).ok());
  EXPECT_EQ(LastByte(Acquire(1)->segment().path()), 1);
  EXPECT_THAT(Segments(), SizeIs(1));
}

TEST_F(RelayServiceTest, ASealedVersionStays) {
  Start();
  Publish(5, 5);
  EXPECT_EQ(ErrorReason(Begin(5).status()), "VERSION_SEALED");
  EXPECT_EQ(ErrorReason(Begin(4).status()), "VERSION_NOT_NEWER");
  EXPECT_THAT(Versions(), testing::ElementsAre(5));
}

TEST_F(RelayServiceTest, AForkReplacesVersionsThatReadersKeep) {
  Start();
  Publish(5, 5);
  Publish(6, 6);
  const auto old = Acquire(6).value();
  Publish(5, 55, /*fork=*/true);
  EXPECT_THAT(Versions(), testing::ElementsAre(5));
  EXPECT_EQ(LastByte(Acquire(5)->segment().path()), 55);
  EXPECT_EQ(LastByte(old.segment().path()), 6) << "leased, so untouched";
  EXPECT_TRUE(Release(old.lease_id()).ok());
  EXPECT_EQ(ErrorReason(Acquire(6).status()), "VERSION_NOT_FOUND");
}

TEST_F(RelayServiceTest, KeepsTheNewestAndTheLeasedAndReusesTheRest) {
  Start();
  Publish(0, 10);
  const auto lease = Acquire(0).value();
  for (uint64_t version = 1; version <= 6; ++version) {
    Publish(version, static_cast<uint8_t>(10 + version));
  }
  EXPECT_THAT(Versions(), testing::ElementsAre(0, 5, 6));
  EXPECT_EQ(LastByte(lease.segment().path()), 10);
  EXPECT_THAT(Segments(), SizeIs(4)) << "three versions and one recycled, not seven";
  ASSERT_TRUE(Release(lease.lease_id()).ok());
  EXPECT_THAT(Versions(), testing::ElementsAre(5, 6));
}

TEST_F(RelayServiceTest, ALeaseEndsByItself) {
  Start();
  Publish(0, 0);
  const auto lease = Acquire(0, 0, /*ttl_ms=*/1).value();
  Publish(1, 1);
  Publish(2, 2);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (Versions().size() > 2 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_THAT(Versions(), testing::ElementsAre(1, 2));
  EXPECT_EQ(ErrorReason(Release(lease.lease_id())), "LEASE_NOT_FOUND");
}

TEST_F(RelayServiceTest, NoLeaseIsLongerThanTheLongest) {
  options_.relay.max_ttl = absl::Milliseconds(1);
  Start();
  Publish(0, 0);
  ASSERT_TRUE(Acquire(0, 0, /*ttl_ms=*/60000).ok());
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (List().segments(0).leases() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(List().segments(0).leases(), 0);
}

TEST_F(RelayServiceTest, NoWaitIsLongerThanTheLongest) {
  options_.relay.max_wait = absl::Milliseconds(1);
  Start();
  EXPECT_EQ(ErrorReason(Acquire(2, /*wait_ms=*/60000).status()), "VERSION_NOT_FOUND")
      << "and not the end of the call";
}

TEST_F(RelayServiceTest, ListsTheJobThatIsAskedFor) {
  Start();
  Publish(3, 3);
  v1::ListRequest request;
  request.set_job("projects/default/jobs/other");
  EXPECT_EQ(Call(&v1::RelayService::Stub::List, request)->segments_size(), 0);
  request.set_job(kJob);
  EXPECT_EQ(Call(&v1::RelayService::Stub::List, request)->segments_size(), 1);
}

TEST_F(RelayServiceTest, TooLargeIsRefusedBeforeAnythingIsTouched) {
  const SafetensorsLayout huge = Layout(2000);  // less than twice as large
  options_.relay.pool.max_bytes = static_cast<uint64_t>(layout_.file_size()) * 3;
  Start();
  Publish(1, 1);
  const auto waiting = Begin(2).value();
  ASSERT_TRUE(Begin(1, false, "another job").ok());
  v1::BeginRequest request;
  request.set_job(kJob);
  request.set_policy_version(2);
  request.set_header(huge.header());
  request.set_size_bytes(static_cast<uint64_t>(huge.file_size()));
  request.set_world_size(1);
  request.set_fork(true);
  const auto refused = Call(&v1::RelayService::Stub::Begin, request);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_EQ(ErrorReason(refused.status()), "SHARED_MEMORY");
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr(absl::StrCat(huge.file_size(), " bytes does not fit")));
  EXPECT_THAT(Versions(), testing::ElementsAre(1));
  ASSERT_TRUE(Fill(waiting, 2).ok()) << "the segment being written is still there";
  EXPECT_TRUE(Seal(waiting.segment_id()).ok());
}

// If the version were not refused, the job and its workers would wait for ever.
TEST_F(RelayServiceTest, AVersionThatCanNeverFitIsRefusedForGood) {
  const auto size = static_cast<uint64_t>(layout_.file_size());
  options_.relay.pool.max_bytes = size * 2 - 1;
  Start();
  Publish(1, 1);
  const absl::Status refused = Begin(2).status();
  EXPECT_TRUE(absl::IsOutOfRange(refused)) << refused;
  EXPECT_EQ(ErrorReason(refused), "SHARED_MEMORY_SIZE");
  EXPECT_EQ(ErrorReason(Begin(1, false, "another job").status()), "SHARED_MEMORY")
      << "there is room for it once the first job has ended";
  Publish(1, 2, /*fork=*/true);
  EXPECT_THAT(Versions(), testing::ElementsAre(1));
}

TEST_F(RelayServiceTest, AFullRelayStillTakesOverFromADeadPublisher) {
  options_.relay.pool.max_bytes = static_cast<uint64_t>(layout_.file_size());
  Start();
  ASSERT_TRUE(Begin(1).ok());
  EXPECT_EQ(ErrorReason(Begin(1, false, "another job").status()), "SHARED_MEMORY");
  EXPECT_TRUE(Begin(1).ok()) << "the unsealed segment makes room";
}

TEST_F(RelayServiceTest, RefusesHeadersThatAreNone) {
  Start();
  v1::BeginRequest request;
  request.set_job(kJob);
  request.set_size_bytes(100);
  request.set_world_size(1);
  request.set_header("not a header");
  EXPECT_TRUE(absl::IsInvalidArgument(Call(&v1::RelayService::Stub::Begin, request).status()));
  request.set_header(layout_.header());
  EXPECT_TRUE(absl::IsInvalidArgument(Call(&v1::RelayService::Stub::Begin, request).status()));
  request.set_job("");
  EXPECT_TRUE(absl::IsInvalidArgument(Call(&v1::RelayService::Stub::Begin, request).status()));
  EXPECT_THAT(Segments(), IsEmpty());
}

TEST_F(RelayServiceTest, AcquireWaitsForTheVersion) {
  Start();
  Publish(1, 1);
  std::atomic<bool> got{false};
  absl::StatusOr<v1::AcquireResponse> lease;
  std::thread reader([&] {
    lease = Acquire(2, /*wait_ms=*/20000);
    got = true;
  });
  const auto begun = Begin(2).value();
  ASSERT_TRUE(Fill(begun, 2).ok());
  EXPECT_FALSE(got);
  ASSERT_TRUE(Seal(begun.segment_id()).ok());
  const auto sealed = std::chrono::steady_clock::now();
  reader.join();
  EXPECT_LT(std::chrono::steady_clock::now() - sealed, std::chrono::seconds(10))
      << "the seal wakes the reader, not the end of its wait";
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->segment().policy_version(), 2u);
}

TEST_F(RelayServiceTest, ATimedOutWaitNamesTheAvailableVersions) {
  Start();
  Publish(1, 1);
  const auto refused = Acquire(2, /*wait_ms=*/1);
  EXPECT_EQ(ErrorReason(refused.status()), "VERSION_NOT_FOUND");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("it has 1"));
}

TEST_F(RelayServiceTest, ACallerThatGoesAwayLeavesNoLease) {
  Start();
  grpc::ClientContext context;
  std::thread reader([&] {
    v1::AcquireRequest request;
    request.set_job(kJob);
    request.set_policy_version(1);
    request.mutable_wait()->set_seconds(60);
    v1::AcquireResponse response;
    EXPECT_EQ(stub_->Acquire(&context, request, &response).error_code(),
              grpc::StatusCode::CANCELLED);
  });
  context.TryCancel();
  reader.join();
  Publish(1, 1);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (List().segments(0).leases() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(List().segments(0).leases(), 0);
}

// The call waits at the relay until its deadline; no lease is taken for it afterwards.
TEST_F(RelayServiceTest, AWaitThatItsCallerGivesUpLeavesNoLease) {
  Start();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  v1::AcquireRequest request;
  request.set_job(kJob);
  request.mutable_wait()->set_seconds(60);
  v1::AcquireResponse response;
  EXPECT_EQ(stub_->Acquire(&context, request, &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  Publish(1, 1);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (List().segments(0).leases() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(List().segments(0).leases(), 0);
}

TEST_F(RelayServiceTest, ShuttingDownEndsWaitsAndRemovesEveryFile) {
  Start();
  Publish(1, 1);
  ASSERT_TRUE(Begin(2).ok());
  std::thread reader([&] { EXPECT_FALSE(Acquire(9, /*wait_ms=*/60000).ok()); });
  server_.reset();
  reader.join();
  EXPECT_THAT(Segments(), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(RelayServiceTest, APortInUseIsAClearError) {
  Start();
  RelayServerOptions second = options_;
  second.listen = server_->address();
  const auto refused = RelayServer::Start(second);
  ASSERT_TRUE(absl::IsUnavailable(refused.status())) << refused.status();
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("in use"));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr(second.listen));
}

TEST_F(RelayServiceTest, AddressesAreChecked) {
  options_.listen = "7079";
  EXPECT_TRUE(absl::IsInvalidArgument(RelayServer::Start(options_).status()));
  options_.listen = "0.0.0.0:0";
  const auto open = RelayServer::Start(options_);
  ASSERT_TRUE(absl::IsInvalidArgument(open.status())) << "others could read the weights";
  EXPECT_THAT(std::string(open.status().message()), HasSubstr("--token-file"));
  options_.token = "secret";
  const auto clear = RelayServer::Start(options_).status();
  ASSERT_TRUE(absl::IsInvalidArgument(clear)) << "others could read the token";
  EXPECT_THAT(std::string(clear.message()), HasSubstr("--insecure"));
  options_.listen = "127.example.org:0";  // a name, and may be any machine's
  EXPECT_THAT(std::string(RelayServer::Start(options_).status().message()),
              HasSubstr("--insecure"));
  options_.listen = "0.0.0.0:0";
  options_.insecure = true;
  EXPECT_TRUE(RelayServer::Start(options_).ok());
}

TEST_F(RelayServiceTest, AsksForTheToken) {
  options_.token = "secret";
  Start();
  for (const char* wrong : {"", "secre", "secrets", "Secret"}) {
    const auto refused = Call(&v1::RelayService::Stub::List, v1::ListRequest(), wrong);
    EXPECT_TRUE(absl::IsUnauthenticated(refused.status())) << wrong;
    EXPECT_EQ(ErrorReason(refused.status()), "TOKEN_INVALID");
  }
  v1::AcquireRequest acquire;
  acquire.set_job(kJob);
  EXPECT_TRUE(absl::IsUnauthenticated(Call(&v1::RelayService::Stub::Acquire, acquire).status()));
  EXPECT_TRUE(Call(&v1::RelayService::Stub::List, v1::ListRequest(), "secret").ok());
}

// The request is larger than any method takes: the answer would say so if it were read.
TEST_F(RelayServiceTest, ReadsNothingBeforeTheTokenIsKnown) {
  options_.token = "secret";
  Start();
  v1::ReleaseRequest release;
  release.set_lease_id(std::string(64 << 10, 'x'));
  EXPECT_EQ(ErrorReason(Call(&v1::RelayService::Stub::Release, release).status()), "TOKEN_INVALID");
  const auto refused = Call(&v1::RelayService::Stub::Release, release, "secret").status();
  EXPECT_EQ(ErrorReason(refused), "MESSAGE_TOO_LARGE");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("RelayService.Release: the request has"));
  v1::BeginRequest begin;
  begin.set_header(std::string(65 << 20, 'x'));
  EXPECT_EQ(ErrorReason(Call(&v1::RelayService::Stub::Begin, begin).status()), "TOKEN_INVALID");
  EXPECT_EQ(ErrorReason(Call(&v1::RelayService::Stub::Begin, begin, "secret").status()),
            "MESSAGE_TOO_LARGE");
  begin.set_header(std::string(63 << 20, 'x'));
  EXPECT_TRUE(
      absl::IsInvalidArgument(Call(&v1::RelayService::Stub::Begin, begin, "secret").status()))
      << "it was read, and is no header";
}

TEST_F(RelayServiceTest, ReflectionAsksForTheTokenAndHealthDoesNot) {
  const auto ask = [&](const std::string& method, const std::string& token) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    const grpc::Slice empty;
    grpc::ByteBuffer request(&empty, 1), response;
    auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    grpc::Status status;
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status.ok() && response.Length() > 0;
  };
  const std::string reflection = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
  options_.token = "secret";
  Start();
  EXPECT_TRUE(ask(reflection, "secret"));
  EXPECT_FALSE(ask(reflection, "wrong"));
  EXPECT_FALSE(ask(reflection, ""));
  EXPECT_TRUE(ask("/grpc.health.v1.Health/Check", ""));
}

TEST_F(RelayServiceTest, ReadersAndAPublisherAtOnce) {
  Start();
  Publish(0, 0);
  std::atomic<bool> stop{false};
  std::atomic<int> reads{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const auto lease = Acquire({});
        ASSERT_TRUE(lease.ok()) << lease.status();
        const auto file = MappedFile::Open(lease->segment().path());
        ASSERT_TRUE(file.ok()) << file.status();
        const auto data = file->bytes().subspan(static_cast<size_t>(layout_.data_offset()));
        const auto expected = static_cast<uint8_t>(lease->segment().policy_version());
        for (const uint8_t byte : data) ASSERT_EQ(byte, expected);
        ASSERT_TRUE(Release(lease->lease_id()).ok());
        ++reads;
      }
    });
  }
  for (uint64_t version = 1; version <= 50; ++version) {
    Publish(version, static_cast<uint8_t>(version));
  }
  while (reads < 10) std::this_thread::yield();
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_THAT(Versions(), testing::ElementsAre(49, 50));
}

}  // namespace
}  // namespace baton::relay
