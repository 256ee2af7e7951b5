#include "relay/server/relay_server.h"

#include <chrono>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "sdk/common/base/loopback.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/rpc/channel.h"
#include "sdk/common/rpc/connection_limits.h"
#include "sdk/common/rpc/guarded_reflection.h"

namespace baton::relay {
namespace {

struct HostPort {
  std::string host;  ///< Without brackets.
  std::string port;
};

absl::StatusOr<HostPort> Split(absl::string_view listen) {
  const size_t colon = listen.rfind(':');
  if (colon == absl::string_view::npos || colon == 0 || colon + 1 == listen.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen: \"", listen, "\" is not host:port, e.g. 127.0.0.1:7079"));
  }
  absl::string_view host = listen.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) {
    return absl::InvalidArgumentError(absl::StrCat("--listen: \"", listen, "\" lacks a ]"));
  }
  return HostPort{std::string(host), std::string(listen.substr(colon + 1))};
}

}  // namespace

absl::StatusOr<std::unique_ptr<RelayServer>> RelayServer::Start(RelayServerOptions options) {
  BATON_ASSIGN_OR_RETURN(const HostPort host_port, Split(options.listen));
  if (options.token.empty() && !IsLoopbackHost(host_port.host)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", options.listen,
                     ": others can reach this address; give --token-file, or use 127.0.0.1"));
  }
  if (!options.insecure && !IsLoopbackHost(host_port.host)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", options.listen,
                     ": others can reach this address, and the token would travel there in clear "
                     "text; use 127.0.0.1, or give --insecure where the network is trusted"));
  }
  BATON_ASSIGN_OR_RETURN(auto relay, Relay::Create(std::move(options.relay)));
  std::unique_ptr<RelayServer> server(new RelayServer(std::move(relay), std::move(options.token)));
  // gRPC's own health service accepts requests of any length
  grpc::EnableDefaultHealthCheckService(false);
  grpc::ServerBuilder builder;
  ServeReflection(builder, [service = &server->service_](const auto& context) {
    return service->Authenticate(context).ok();
  });
  auto acceptor = ConnectionAcceptor::Listen(options.listen, options.connections.connections);
  if (!acceptor.ok()) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", options.listen, ": ",
                                               acceptor.status().message(),
                                               "; choose another address with --listen"));
  }
  server->acceptor_ = *std::move(acceptor);
  server->service_.KnowConnections(server->acceptor_->table());
  server->acceptor_->AddTo(builder, grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(-1);  // Each method has its own limit.
  KeepConnectionsAlive(builder);
  LimitConnections(builder, options.connections);
  builder.RegisterService(&server->health_);
  builder.RegisterService(&server->service_);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) return absl::InternalError("gRPC does not start");
  server->acceptor_->Start();
  const int port = server->acceptor_->port();
  const std::string& host = host_port.host;
  server->address_ = absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                                  : absl::StrCat(host, ":", port);
  return server;
}

RelayServer::~RelayServer() {
  acceptor_ = nullptr;  // it gives connections to the server
  if (server_ != nullptr) {
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  }
}

}  // namespace baton::relay
