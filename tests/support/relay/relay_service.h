// The set-up of the tests of the relay's service: a server on a free port, with a folder of its own
// for segments, and calls to it. One thread; every call has a deadline of 30 s.
#ifndef BATON_TESTS_SUPPORT_RELAY_RELAY_SERVICE_H_
#define BATON_TESTS_SUPPORT_RELAY_RELAY_SERVICE_H_

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
#include "relay/segment/checksum_message.h"
#include "relay/segment/shared_file.h"
#include "relay/server/relay_server.h"
#include "relay/weights/mapped_file.h"
#include "relay/weights/safetensors_writer.h"
#include "sdk/common/base/test_folder.h"
#include "sdk/common/contracts/shared_key.h"
#include "sdk/common/rpc/error.h"

namespace baton::relay {

inline constexpr char kJob[] = "projects/default/jobs/addition";

inline SafetensorsLayout Layout(int64_t floats = 1000) {
  return SafetensorsLayout::Create({{"w", DType::kF32, {floats}}, {"b", DType::kF32, {3}}}).value();
}

class RelayServiceTest : public ::testing::Test {
 protected:
  RelayServiceTest() {
    options_.listen = "127.0.0.1:0";
    options_.relay.pool.directory = dir_.path();
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
    const auto view = SafetensorsView::Parse(bytes).value();
    auto digests = DigestBoxes(view, WholeTensors(view.entries())).value();
    for (TensorDigest& digest : digests) digest.xxh3 += lie;
    AddChecksums(digests, request.mutable_tensors());
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
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    }
    return files;
  }

  uint8_t LastByte(const std::string& path) const {
    return MappedFile::Open(path).value().bytes().back();
  }

  const TestFolder dir_;
  std::string capability_;  // of publishing
  std::string uid_;         ///< The job uid of Begin and Acquire.
  RelayServerOptions options_;
  SafetensorsLayout layout_ = Layout();
  std::unique_ptr<RelayServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::RelayService::Stub> stub_;
};

}  // namespace baton::relay

#endif  // BATON_TESTS_SUPPORT_RELAY_RELAY_SERVICE_H_
