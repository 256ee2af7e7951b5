#include "relay/server/relay_service.h"

#include "absl/strings/str_cat.h"
#include "sdk/common/base/digest.h"
#include "sdk/common/rpc/error.h"

namespace baton::relay {
namespace {

// Size limit of a segment's header, or of its checksums: about 100 bytes per tensor.
constexpr size_t kManyTensorsBytes = 64 << 20;

/// An Acquire that may wait. If its caller leaves, it stops waiting and gets no lease.
class AcquireReactor final : public grpc::ServerUnaryReactor {
 public:
  AcquireReactor(Relay* relay, const grpc::CallbackServerContext* context,
                 const v1::AcquireRequest& request, v1::AcquireResponse* response)
      : relay_(relay), context_(context) {
    // gRPC delays Finish, OnCancel and OnDone until the reactor has been returned to it.
    ticket_ = relay_->Acquire(request, [this, response](auto result) {
      if (result.ok()) *response = *std::move(result);
      Complete(result.status(), *response);
    });
  }

  void OnCancel() override { relay_->CancelAcquire(ticket_); }
  void OnDone() override { delete this; }

 private:
  void Complete(const absl::Status& status, const v1::AcquireResponse& response) {
    if (status.ok() && context_->IsCancelled()) {
      v1::ReleaseRequest release;
      release.set_lease_id(response.lease_id());
      relay_->Release(std::move(release), [](const auto&) {});
    }
    Finish(ToGrpc(status));
  }

  Relay* const relay_;
  const grpc::CallbackServerContext* const context_;
  uint64_t ticket_ = 0;
};

}  // namespace

RelayServiceImpl::RelayServiceImpl(Relay* relay, std::string token)
    : GuardedService(
          v1::RelayService::service_full_name(),
          [this](const auto& context, const std::string&) { return Authenticate(context); }),
      relay_(relay),
      token_(std::move(token)) {
  Guard("Begin", &RelayServiceImpl::Begin, kManyTensorsBytes);
  Guard("Commit", &RelayServiceImpl::Commit, kManyTensorsBytes);
  Guard("Seal", &RelayServiceImpl::Seal);
  Guard("Acquire", &RelayServiceImpl::Acquire);
  Guard("Release", &RelayServiceImpl::Release);
  Guard("Drop", &RelayServiceImpl::Drop);
  Guard("List", &RelayServiceImpl::List);
}

absl::Status RelayServiceImpl::Authenticate(const grpc::ServerContextBase& context) const {
  const auto& metadata = context.client_metadata();
  const auto it = metadata.find("authorization");
  const std::string expected = absl::StrCat("Bearer ", token_);
  if (token_.empty() ||
      (it != metadata.end() && SameSecret({it->second.data(), it->second.size()}, expected))) {
    // One token opens all of a relay: there are no projects to tell apart.
    if (table_ != nullptr) return table_->Know(context.peer(), "*", /*reserved=*/true);
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kUnauthenticated, "TOKEN_INVALID",
                   "this relay wants its bearer token; start the caller with --token-file");
}

template <typename Request, typename Response>
grpc::ServerUnaryReactor* RelayServiceImpl::Forward(grpc::CallbackServerContext* context,
                                                    const Request* request, Response* response,
                                                    void (Relay::*method)(Request,
                                                                          Relay::Done<Response>)) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  (relay_->*method)(*request, [reactor, response](absl::StatusOr<Response> result) {
    if (result.ok()) *response = *std::move(result);
    reactor->Finish(ToGrpc(result.status()));
  });
  return reactor;
}

grpc::ServerUnaryReactor* RelayServiceImpl::Begin(grpc::CallbackServerContext* context,
                                                  const v1::BeginRequest* request,
                                                  v1::BeginResponse* response) {
  return Forward(context, request, response, &Relay::Begin);
}

grpc::ServerUnaryReactor* RelayServiceImpl::Commit(grpc::CallbackServerContext* context,
                                                   const v1::CommitRequest* request,
                                                   v1::CommitResponse* response) {
  return Forward(context, request, response, &Relay::Commit);
}

grpc::ServerUnaryReactor* RelayServiceImpl::Seal(grpc::CallbackServerContext* context,
                                                 const v1::SealRequest* request,
                                                 v1::SealResponse* response) {
  return Forward(context, request, response, &Relay::Seal);
}

grpc::ServerUnaryReactor* RelayServiceImpl::Acquire(grpc::CallbackServerContext* context,
                                                    const v1::AcquireRequest* request,
                                                    v1::AcquireResponse* response) {
  return new AcquireReactor(relay_, context, *request, response);
}

grpc::ServerUnaryReactor* RelayServiceImpl::Release(grpc::CallbackServerContext* context,
                                                    const v1::ReleaseRequest* request,
                                                    v1::ReleaseResponse* response) {
  return Forward(context, request, response, &Relay::Release);
}

grpc::ServerUnaryReactor* RelayServiceImpl::Drop(grpc::CallbackServerContext* context,
                                                 const v1::DropRequest* request,
                                                 v1::DropResponse* response) {
  return Forward(context, request, response, &Relay::Drop);
}

grpc::ServerUnaryReactor* RelayServiceImpl::List(grpc::CallbackServerContext* context,
                                                 const v1::ListRequest* request,
                                                 v1::ListResponse* response) {
  return Forward(context, request, response, &Relay::List);
}

}  // namespace baton::relay
