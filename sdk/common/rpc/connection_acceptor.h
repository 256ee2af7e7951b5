// An acceptor that listens for a gRPC server, and keeps the table of its connections.
#ifndef BATON_SDK_COMMON_RPC_CONNECTION_ACCEPTOR_H_
#define BATON_SDK_COMMON_RPC_CONNECTION_ACCEPTOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "sdk/common/rpc/connection_table.h"

namespace baton {

/// gRPC's own listener takes every connection that comes, and stops for ever to accept once the
/// process has no descriptor left. This one accepts on a thread of its own and gives gRPC what the
/// table lets in.
///
///   acceptor = Listen(address, max); acceptor->AddTo(builder, credentials);
///   server = builder.BuildAndStart(); acceptor->Start();
class ConnectionAcceptor {
 public:
  /// Binds and listens. `address` is "host:port" (port 0: any free one) or "unix:path"; the host of
  /// all addresses ("0.0.0.0", "[::]") takes IPv4 and IPv6. At most `max` connections. The error is
  /// why not, e.g. "Address already in use"; InvalidArgument: it is no address.
  static absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> Listen(const std::string& address,
                                                                    int max);
  /// Stops to accept; connections stay. Destroy it before its server shuts down.
  virtual ~ConnectionAcceptor() = default;

  virtual void AddTo(grpc::ServerBuilder& builder,
                     const std::shared_ptr<grpc::ServerCredentials>& credentials) = 0;
  /// Begins to accept; the server has been started.
  virtual void Start() = 0;
  /// 0: a unix socket.
  virtual int port() const = 0;
  /// Never null; the table may outlive the acceptor.
  virtual const std::shared_ptr<ConnectionTable>& table() const = 0;
};

}  // namespace baton

#endif  // BATON_SDK_COMMON_RPC_CONNECTION_ACCEPTOR_H_
