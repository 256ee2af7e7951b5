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
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "relay/segment/shared_file.h"
#include "relay/server/relay_server.h"
#include "relay/weights/mapped_file.h"
#include "relay/weights/safetensors_writer.h"
#include "sdk/base/shared_key.h"
#include "sdk/rpc/error.h"

namespace baton::relay {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kJob[] = "projects/default/jobs/addition";

SafetensorsLayout Layout(int64_t floats = 1000) {
  return SafetensorsLayout::Create({{"w", DType::kF32, {floats}}, {"b", DType::kF32, {3}}}).value();
}

class RelayServiceTest : public ::testing::Test {
 protected:
  RelayServiceTest() {
    char path[] = "/tmp/baton-relay-service-XXXXXX";
    dir_ = mkdtemp(path);
    options_.listen = "127.0.0.1:0";
    options_.relay.pool.directory = dir_;
  }
  ~RelayServiceTest() override {
    server_.reset();
    std::filesystem::remove_all(dir_);
  }

  void Start() {
    auto server = RelayServer::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials());
    stub_ = v1::RelayService::NewStub(channel_);
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::RelayService::Stub::*method)(grpc::ClientContext*,
                                                                               const Request&,
                                                                               Response*),
                                const Request& request, const std::string& token = "") {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    Response response;
    const grpc::Status status = ((*stub_).*method)(&context, request, &response);
    if (!status.ok()) return FromGrpc(status);
    return response;
  }

  absl::StatusOr<v1::BeginResponse> Begin(uint64_t version, bool fork = false,
                                          const std::string& job = kJob) {
    v1::BeginRequest request;
    request.set_job(job);
    request.set_job_uid(uid_);
    request.set_policy_version(version);
    request.set_header(layout_.header());
    request.set_size_bytes(static_cast<uint64_t>(layout_.file_size()));
    request.set_world_size(1);
    request.set_fork(fork);
    request.set_capability(capability_);
    return Call(&v1::RelayService::Stub::Begin, request);
  }

  /// Fills the data with `value` and commits; `lie` is added to the checksums.
  absl::Status Fill(const v1::BeginResponse& begun, uint8_t value, uint64_t lie = 0) {
    const auto size = static_cast<uint64_t>(layout_.file_size());
    auto file = SharedFile::Open(begun.path(), size);
    if (!file.ok()) return file.status();
    const auto bytes = (*file)->bytes();
    std::memset(bytes.data() + layout_.data_offset(), value, bytes.size() - layout_.data_offset());
    v1::CommitRequest request;
    request.set_segment_id(begun.segment_id());
    request.set_capability(capability_);
    for (const TensorDigest& digest : DigestTensors(SafetensorsView::Parse(bytes).value())) {
      auto* tensor = request.add_tensors();
      tensor->set_name(digest.name);
      tensor->set_xxh3(digest.xxh3 + lie);
    }
    return Call(&v1::RelayService::Stub::Commit, request).status();
  }

  absl::StatusOr<v1::SealResponse> Seal(const std::string& segment_id) {
    v1::SealRequest request;
    request.set_segment_id(segment_id);
    request.set_capability(capability_);
    return Call(&v1::RelayService::Stub::Seal, request);
  }

  absl::Status Drop(const std::vector<std::string>& segment_ids) {
    v1::DropRequest request;
    for (const std::string& id : segment_ids) request.add_segment_ids(id);
    request.set_capability(capability_);
    return Call(&v1::RelayService::Stub::Drop, request).status();
  }

  v1::SegmentInfo Publish(uint64_t version, uint8_t value, bool fork = false) {
    auto begun = Begin(version, fork);
    EXPECT_TRUE(begun.ok()) << begun.status();
    const absl::Status filled = Fill(*begun, value);
    EXPECT_TRUE(filled.ok()) << filled;
    auto sealed = Seal(begun->segment_id());
    EXPECT_TRUE(sealed.ok()) << sealed.status();
    return sealed->segment();
  }

  absl::StatusOr<v1::AcquireResponse> Acquire(std::optional<uint64_t> version, int wait_ms = 0,
                                              int ttl_ms = 60000) {
    v1::AcquireRequest request;
    request.set_job(kJob);
    request.set_job_uid(uid_);
    request.set_holder("test");
    if (version) request.set_policy_version(*version);
    request.mutable_ttl()->set_seconds(ttl_ms / 1000);
    request.mutable_ttl()->set_nanos(ttl_ms % 1000 * 1000000);
    request.mutable_wait()->set_seconds(wait_ms / 1000);
    request.mutable_wait()->set_nanos(wait_ms % 1000 * 1000000);
    return Call(&v1::RelayService::Stub::Acquire, request);
  }

  absl::Status Release(const std::string& lease_id) {
    v1::ReleaseRequest request;
    request.set_lease_id(lease_id);
    return Call(&v1::RelayService::Stub::Release, request).status();
  }

  v1::ListResponse List() { return Call(&v1::RelayService::Stub::List, v1::ListRequest()).value(); }

  std::vector<uint64_t> Versions() {
    std::vector<uint64_t> versions;
    const v1::ListResponse list = List();
    for (const auto& segment : list.segments()) versions.push_back(segment.policy_version());
    return versions;
  }

  std::vector<std::string> Segments() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    }
    return files;
  }

  uint8_t LastByte(const std::string& path) const {
    return MappedFile::Open(path).value().bytes().back();
  }

  std::string dir_;
  std::string capability_;  // of publishing
  std::string uid_;         ///< Of Begin and Acquire.
  RelayServerOptions options_;
  SafetensorsLayout layout_ = Layout();
  std::unique_ptr<RelayServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::RelayService::Stub> stub_;
};

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

TEST_F(RelayServiceTest, TooLargeIsRefusedBeforeAnythingIsTouched) {
  options_.relay.pool.max_bytes = static_cast<uint64_t>(layout_.file_size()) * 2;
  Start();
  Publish(1, 1);
  const auto waiting = Begin(2).value();
  const SafetensorsLayout huge = Layout(1 << 20);
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
  reader.join();
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->segment().policy_version(), 2u);
}

TEST_F(RelayServiceTest, AWaitThatEndsInVainSaysWhatThereIs) {
  Start();
  Publish(1, 1);
  const auto refused = Acquire(2, /*wait_ms=*/1);
  EXPECT_EQ(ErrorReason(refused.status()), "VERSION_NOT_FOUND");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("there is 1"));
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

TEST_F(RelayServiceTest, ShuttingDownEndsWaitsAndRemovesEveryFile) {
  Start();
  Publish(1, 1);
  ASSERT_TRUE(Begin(2).ok());
  std::thread reader([&] { EXPECT_FALSE(Acquire(9, /*wait_ms=*/60000).ok()); });
  server_.reset();
  reader.join();
  EXPECT_THAT(Segments(), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
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

// A relay that shares a key with the controller: only the job's own trainer publishes for it.
class CapabilityTest : public RelayServiceTest {
 protected:
  CapabilityTest() { options_.relay.capability_key = kKey; }

  /// The wrong ones, by what is wrong.
  static std::map<std::string, std::string> Wrong() {
    std::string damaged = PublishCapability(kKey, kJob);
    damaged.back() = damaged.back() == '0' ? '1' : '0';
    return {{"missing", ""},
            {"another job's", PublishCapability(kKey, "projects/default/jobs/other")},
            {"of another key", PublishCapability("another-key-of-32-characters-----", kJob)},
            {"the key itself", kKey},
            {"damaged", damaged},
            {"longer", PublishCapability(kKey, kJob) + "0"}};
  }
  static void ExpectRefused(const absl::Status& status, const std::string& what) {
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << what << ": " << status;
    EXPECT_EQ(ErrorReason(status), "CAPABILITY") << what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(kJob)) << what;
  }

  static constexpr char kKey[] = "a-key-of-32-characters-or-more--";
};

TEST_F(CapabilityTest, TheRightOnePublishesAndAnyoneReads) {
  Start();
  capability_ = PublishCapability(kKey, kJob);
  const v1::SegmentInfo first = Publish(1, 1);
  Publish(2, 2);
  EXPECT_TRUE(Drop({first.segment_id(), "unknown"}).ok());
  capability_.clear();
  EXPECT_THAT(Versions(), ::testing::ElementsAre(2));
  EXPECT_TRUE(Acquire(2).ok());
}

TEST_F(CapabilityTest, BeginIsRefusedBeforeAnythingIsTouched) {
  Start();
  for (const auto& [what, capability] : Wrong()) {
    capability_ = capability;
    ExpectRefused(Begin(1).status(), what);
  }
  EXPECT_THAT(Segments(), IsEmpty());
}

TEST_F(CapabilityTest, NobodyElseForksAJobBack) {
  Start();
  capability_ = PublishCapability(kKey, kJob);
  Publish(5, 5);
  capability_ = PublishCapability(kKey, "projects/default/jobs/other");
  ExpectRefused(Begin(1, /*fork=*/true).status(), "fork");
  EXPECT_THAT(Versions(), ::testing::ElementsAre(5));
}

TEST_F(CapabilityTest, CommitAndSealOfAnothersSegmentAreRefused) {
  Start();
  const std::string right = capability_ = PublishCapability(kKey, kJob);
  const auto begun = Begin(1);
  ASSERT_TRUE(begun.ok()) << begun.status();
  for (const auto& [what, capability] : Wrong()) {
    capability_ = capability;
    ExpectRefused(Fill(*begun, 7), what);
    ExpectRefused(Seal(begun->segment_id()).status(), what);
  }
  capability_ = right;
  EXPECT_EQ(ErrorReason(Seal(begun->segment_id()).status()), "INCOMPLETE") << "nothing committed";
  EXPECT_TRUE(Fill(*begun, 7).ok());
  EXPECT_TRUE(Seal(begun->segment_id()).ok());
}

TEST_F(CapabilityTest, AnEarlierJobOfTheNameChangesNothing) {
  Start();
  uid_ = "new";
  capability_ = PublishCapability(kKey, kJob, "old");
  ExpectRefused(Begin(1).status(), "the earlier job's");
  capability_ = PublishCapability(kKey, kJob);
  ExpectRefused(Begin(1).status(), "by name");
  capability_ = PublishCapability(kKey, kJob, "new");
  Publish(1, 1);
  uid_ = "";
  ExpectRefused(Begin(1).status(), "the uid's capability, for the name");
}

// Of a job that was deleted while its trainer was lost.
TEST_F(RelayServiceTest, AJobNeverMeetsVersionsOfAnEarlierOneOfItsName) {
  Start();
  uid_ = "old";
  const v1::SegmentInfo old = Publish(1, 1);
  EXPECT_EQ(old.job(), kJob);
  EXPECT_EQ(old.job_uid(), "old");
  uid_ = "new";
  EXPECT_EQ(ErrorReason(Acquire(1).status()), "VERSION_NOT_FOUND");
  EXPECT_EQ(ErrorReason(Acquire(std::nullopt).status()), "VERSION_NOT_FOUND");
  Publish(1, 2);  // neither newer nor a fork
  EXPECT_EQ(Acquire(1)->segment().job_uid(), "new");
  uid_ = "";
  EXPECT_EQ(ErrorReason(Acquire(1).status()), "VERSION_NOT_FOUND");
  EXPECT_EQ(Segments().size(), 2u);
  EXPECT_THAT(Versions(), ::testing::ElementsAre(1, 1));  // both, by name
  const auto bad = Begin(1, false, "projects/default/jobs/j#new");
  EXPECT_TRUE(absl::IsInvalidArgument(bad.status())) << bad.status();
}

TEST_F(CapabilityTest, DropIsRefusedAsAWhole) {
  Start();
  const std::string other = "projects/default/jobs/other";
  const std::string mine = capability_ = PublishCapability(kKey, kJob);
  const v1::SegmentInfo sealed = Publish(1, 1);
  capability_ = PublishCapability(kKey, other);
  const auto theirs = Begin(1, false, other);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  ExpectRefused(Drop({theirs->segment_id(), sealed.segment_id()}), "one of them is not theirs");
  EXPECT_THAT(Versions(), ::testing::ElementsAre(1));
  EXPECT_TRUE(Fill(*theirs, 1).ok()) << "theirs is not dropped either";
  for (const auto& [what, capability] : Wrong()) {
    capability_ = capability;
    ExpectRefused(Drop({sealed.segment_id()}), what);
  }
  EXPECT_THAT(Versions(), ::testing::ElementsAre(1));
  capability_ = mine;
  EXPECT_TRUE(Drop({sealed.segment_id()}).ok());
  EXPECT_THAT(Versions(), IsEmpty());
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
