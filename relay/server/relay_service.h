// RelayService over gRPC: checks the token, hands the request to the Relay, answers.
#ifndef BATON_RELAY_SERVER_RELAY_SERVICE_H_
#define BATON_RELAY_SERVER_RELAY_SERVICE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "baton/v1/relay_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "relay/server/relay.h"
#include "sdk/common/rpc/connection_table.h"
#include "sdk/common/rpc/guarded_service.h"

namespace baton::relay {

/// `relay` outlives every call. The token is checked before a request is read. An empty token
/// allows every caller.
class RelayServiceImpl final : public GuardedService<v1::RelayService::CallbackService> {
 public:
  RelayServiceImpl(Relay* relay, std::string token);

  grpc::ServerUnaryReactor* Begin(grpc::CallbackServerContext* context,
                                  const v1::BeginRequest* request,
                                  v1::BeginResponse* response) override;
  grpc::ServerUnaryReactor* Commit(grpc::CallbackServerContext* context,
                                   const v1::CommitRequest* request,
                                   v1::CommitResponse* response) override;
  grpc::ServerUnaryReactor* Seal(grpc::CallbackServerContext* context,
                                 const v1::SealRequest* request,
                                 v1::SealResponse* response) override;
  grpc::ServerUnaryReactor* Acquire(grpc::CallbackServerContext* context,
                                    const v1::AcquireRequest* request,
                                    v1::AcquireResponse* response) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context,
                                    const v1::ReleaseRequest* request,
                                    v1::ReleaseResponse* response) override;
  grpc::ServerUnaryReactor* Drop(grpc::CallbackServerContext* context,
                                 const v1::DropRequest* request,
                                 v1::DropResponse* response) override;
  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context,
                                 const v1::ListRequest* request,
                                 v1::ListResponse* response) override;

  /// Tells the table which connections are of callers that Authenticate lets in. Call it before the
  /// server starts.
  void KnowConnections(std::shared_ptr<ConnectionTable> table) { table_ = std::move(table); }

  /// OK, or UNAUTHENTICATED (TOKEN_INVALID).
  absl::Status Authenticate(const grpc::ServerContextBase& context) const;

 private:
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Forward(grpc::CallbackServerContext* context, const Request* request,
                                    Response* response,
                                    void (Relay::*method)(Request, Relay::Done<Response>));

  Relay* const relay_;
  const std::string token_;
  std::shared_ptr<ConnectionTable> table_;  // may be null
};

}  // namespace baton::relay

#endif  // BATON_RELAY_SERVER_RELAY_SERVICE_H_
