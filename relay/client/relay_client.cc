#include "relay/client/relay_client.h"

#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "baton/v1/relay_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "relay/segment/checksum_message.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/messages/times.h"
#include "sdk/common/rpc/channel.h"
#include "sdk/common/rpc/error.h"

namespace baton::relay {
namespace {

constexpr absl::Duration kReleaseTimeout = absl::Seconds(2);

}  // namespace

struct RelayClient::Rpc {
  using Stub = v1::RelayService::Stub;
  const RelayClientOptions options;

  explicit Rpc(RelayClientOptions given) : options(std::move(given)) {}

  /// Made anew once a call could not reach the relay: gRPC waits seconds before it tries a
  /// connection again that has failed, and a relay that was started again is there at once.
  std::shared_ptr<Stub> GetStub() const {
    absl::MutexLock lock(&mu);
    if (stub != nullptr) return stub;
    ChannelOptions how;
    how.own_connection = true;
    stub = v1::RelayService::NewStub(
        MakeChannel(options.address, grpc::InsecureChannelCredentials(), how));
    return stub;
  }
  void Forget(const std::shared_ptr<Stub>& failed) const {
    absl::MutexLock lock(&mu);
    if (stub == failed) stub = nullptr;
  }

  template <typename Request, typename Response>
  using Method = grpc::Status (v1::RelayService::Stub::*)(grpc::ClientContext*, const Request&,
                                                          Response*);

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(Method<Request, Response> method, const Request& request,
                                absl::Duration timeout) const {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    if (!options.token.empty()) context.AddMetadata("authorization", "Bearer " + options.token);
    Response response;
    const std::shared_ptr<Stub> current = GetStub();
    const grpc::Status status = ((*current).*method)(&context, request, &response);
    if (status.error_code() == grpc::StatusCode::UNAVAILABLE) Forget(current);
    if (!status.ok()) return Annotate(FromGrpc(status), absl::StrCat("relay ", options.address));
    return response;
  }

  mutable absl::Mutex mu;
  mutable std::shared_ptr<Stub> stub ABSL_GUARDED_BY(mu);
};

absl::Status SegmentWriter::Commit(int rank, absl::Span<const TensorBox> boxes) {
  BATON_ASSIGN_OR_RETURN(const SafetensorsView view, SafetensorsView::Parse(bytes()));
  BATON_ASSIGN_OR_RETURN(const std::vector<TensorDigest> digests, DigestBoxes(view, boxes));
  return Commit(rank, digests);
}

absl::Status SegmentWriter::Commit(int rank, absl::Span<const TensorDigest> digests) {
  v1::CommitRequest request;
  request.set_segment_id(segment_id_);
  request.set_capability(capability_);
  request.set_rank(rank);
  AddChecksums(digests, request.mutable_tensors());
  // Once the relay hears of it the segment may be sealed, and its memory used for another one.
  file_.reset();
  const auto& rpc = *client_->rpc_;
  return rpc.Call(&v1::RelayService::Stub::Commit, request, rpc.options.timeout).status();
}

absl::StatusOr<v1::SegmentInfo> SegmentWriter::Seal() {
  v1::SealRequest request;
  request.set_segment_id(segment_id_);
  request.set_capability(capability_);
  const auto& rpc = *client_->rpc_;
  BATON_ASSIGN_OR_RETURN(
      auto response, rpc.Call(&v1::RelayService::Stub::Seal, request, rpc.options.seal_timeout));
  return std::move(*response.mutable_segment());
}

LeasedSegment::~LeasedSegment() {
  view_.reset();
  file_.reset();  // The relay may use the memory again as soon as it has the lease back.
  v1::ReleaseRequest request;
  request.set_lease_id(lease_id_);
  client_->rpc_->Call(&v1::RelayService::Stub::Release, request, kReleaseTimeout)
      .status()
      .IgnoreError();
}

RelayClient::RelayClient(std::unique_ptr<Rpc> rpc) : rpc_(std::move(rpc)) {}
RelayClient::~RelayClient() = default;

absl::StatusOr<std::unique_ptr<RelayClient>> RelayClient::Create(RelayClientOptions options) {
  if (options.address.empty()) {
    return absl::InvalidArgumentError("relay address: empty; give --relay host:port");
  }
  auto rpc = std::make_unique<Rpc>(std::move(options));
  return std::unique_ptr<RelayClient>(new RelayClient(std::move(rpc)));
}

absl::StatusOr<std::unique_ptr<SegmentWriter>> RelayClient::Begin(
    const PublishOptions& options) const {
  v1::BeginRequest request;
  request.set_job(options.job);
  request.set_job_uid(options.job_uid);
  request.set_policy_version(options.policy_version);
  request.set_header(options.header);
  request.set_size_bytes(static_cast<uint64_t>(options.size_bytes));
  request.set_world_size(options.world_size);
  request.set_fork(options.fork);
  request.mutable_keep_versions()->Assign(options.keep_versions.begin(),
                                          options.keep_versions.end());
  request.set_capability(options.capability);
  BATON_ASSIGN_OR_RETURN(auto response, rpc_->Call(&v1::RelayService::Stub::Begin, request,
                                                   rpc_->options.seal_timeout));
  return Join({response.segment_id(), response.path()}, options.size_bytes, options.capability);
}

absl::StatusOr<std::unique_ptr<SegmentWriter>> RelayClient::Join(
    const SegmentPlace& place, int64_t size_bytes, const std::string& capability) const {
  BATON_ASSIGN_OR_RETURN(auto file,
                         SharedFile::Open(place.path, static_cast<uint64_t>(size_bytes)));
  return std::unique_ptr<SegmentWriter>(
      new SegmentWriter(this, place.segment_id, capability, std::move(file)));
}

absl::Status RelayClient::Drop(const std::vector<std::string>& segment_ids,
                               const std::string& capability) const {
  v1::DropRequest request;
  request.set_capability(capability);
  *request.mutable_segment_ids() = {segment_ids.begin(), segment_ids.end()};
  return rpc_->Call(&v1::RelayService::Stub::Drop, request, kReleaseTimeout).status();
}

absl::StatusOr<std::unique_ptr<LeasedSegment>> RelayClient::Acquire(
    const AcquireOptions& options) const {
  v1::AcquireRequest request;
  request.set_job(options.job);
  request.set_job_uid(options.job_uid);
  if (options.policy_version) request.set_policy_version(*options.policy_version);
  request.set_holder(options.holder);
  *request.mutable_ttl() = ToProto(options.ttl);
  if (options.wait > absl::ZeroDuration()) *request.mutable_wait() = ToProto(options.wait);
  BATON_ASSIGN_OR_RETURN(auto response, rpc_->Call(&v1::RelayService::Stub::Acquire, request,
                                                   rpc_->options.timeout + options.wait));
  // From here on the destructor gives the lease back, whatever fails.
  std::unique_ptr<LeasedSegment> segment(
      new LeasedSegment(this, response.lease_id(), std::move(*response.mutable_segment())));
  const std::string& path = segment->info_.path();
  BATON_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  segment->file_.emplace(std::move(file));
  auto view = SafetensorsView::Parse(segment->file_->bytes());
  if (!view.ok()) return Annotate(view.status(), path);
  segment->view_ = *std::move(view);
  const absl::Status verified =
      VerifyTensors(*segment->view_, ReadChecksums(segment->info_.tensors()));
  if (!verified.ok()) return Annotate(verified, path);
  return segment;
}

absl::StatusOr<v1::ListResponse> RelayClient::List(const std::string& job) const {
  v1::ListRequest request;
  request.set_job(job);
  return rpc_->Call(&v1::RelayService::Stub::List, request, rpc_->options.timeout);
}

}  // namespace baton::relay
