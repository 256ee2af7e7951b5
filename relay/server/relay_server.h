// A listening relay: RelayService, the standard health service and reflection on one port.
#ifndef BATON_RELAY_SERVER_RELAY_SERVER_H_
#define BATON_RELAY_SERVER_RELAY_SERVER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "grpcpp/grpcpp.h"
#include "relay/server/relay.h"
#include "relay/server/relay_service.h"
#include "sdk/common/rpc/connection_acceptor.h"
#include "sdk/common/rpc/connection_limits.h"
#include "sdk/common/rpc/health_service.h"

namespace baton::relay {

struct RelayServerOptions {
  std::string listen = "127.0.0.1:7079";  ///< host:port; port 0: any.
  std::string token;                      ///< Bearer token; empty: none is required.
  bool insecure = false;                  ///< The token may travel in clear text.
  RelayOptions relay;
  ConnectionLimits connections;
};

class RelayServer {
 public:
  /// Checks, in this order: INVALID_ARGUMENT: the listen address has no port, or other machines can
  /// reach it and there is no token, or there is a token and not `insecure`; errors of
  /// Relay::Create; UNAVAILABLE: the address is in use or is not this machine's.
  static absl::StatusOr<std::unique_ptr<RelayServer>> Start(RelayServerOptions options);
  /// Ends running calls, then removes every segment.
  ~RelayServer();

  /// host:port with the real port.
  const std::string& address() const { return address_; }
  Relay* relay() { return relay_.get(); }

 private:
  RelayServer(std::unique_ptr<Relay> relay, std::string token)
      : relay_(std::move(relay)), service_(relay_.get(), std::move(token)) {}

  const std::unique_ptr<Relay> relay_;
  RelayServiceImpl service_;
  HealthService health_;
  std::string address_;
  std::unique_ptr<ConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;  ///< Last, so that it is destroyed before what it calls.
};

}  // namespace baton::relay

#endif  // BATON_RELAY_SERVER_RELAY_SERVER_H_
