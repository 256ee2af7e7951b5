#include "controller/status/status_server.h"

#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/steady_timer.hpp"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"

namespace baton::status {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

absl::StatusOr<tcp::endpoint> ParseAddress(const std::string& address) {
  const absl::Status bad = absl::InvalidArgumentError(
      absl::StrCat("--http: ", address, " is not host:port, such as 127.0.0.1:7078"));
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || !absl::SimpleAtoi(address.substr(colon + 1), &port) ||
      port < 0 || port > 65535) {
    return bad;
  }
  std::string host = address.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  boost::system::error_code error;
  const auto ip = asio::ip::make_address(host, error);
  if (error) return bad;
  return tcp::endpoint(ip, static_cast<uint16_t>(port));
}

class StatusServerImpl : public StatusServer {
 public:
  StatusServerImpl(controller::ControllerInterface* controller, StatusOptions options,
                   bool loopback)
      : shared_(std::make_shared<HttpShared>(&io_, controller, std::move(options.tokens), loopback,
                                             options.limits, std::move(options.gauges))),
        acceptor_(io_),
        pause_(io_) {}

  ~StatusServerImpl() override {
    shared_->Stop();
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Listen(const std::string& address, const tcp::endpoint& endpoint) {
    boost::system::error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return absl::FailedPreconditionError(
          absl::StrCat("cannot serve HTTP on ", address, ": ", error.message(),
                       "; is a controller running already? Choose another with --http"));
    }
    port_ = acceptor_.local_endpoint().port();
    Accept();
    thread_ = std::thread([this] { io_.run(); });
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  void Accept() {
    acceptor_.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {  // e.g. no file descriptors are left: do not spin
        Log(LogLevel::kWarn, "cannot accept an HTTP connection", {{"error", error.message()}});
        pause_.expires_after(std::chrono::milliseconds(100));
        pause_.async_wait([this](const boost::system::error_code& stopped) {
          if (!stopped) Accept();
        });
        return;
      }
      // Connections that are idle or slow must not block others.
      bool room = shared_->connections < shared_->limits.connections;
      if (!room && !shared_->waiting.empty()) {
        shared_->waiting.begin()->second->GiveUp();
        room = true;
      }
      if (room) {
        std::make_shared<HttpSession>(std::move(socket), shared_)->Start();
      }
      Accept();
    });
  }

  asio::io_context io_{1};
  const std::shared_ptr<HttpShared> shared_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  int port_ = 0;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StatusServer>> StatusServer::Start(
    const std::string& address, controller::ControllerInterface* controller,
    StatusOptions options) {
  BATON_ASSIGN_OR_RETURN(const tcp::endpoint endpoint, ParseAddress(address));
  const bool loopback = endpoint.address().is_loopback();
  if (!loopback && options.tokens->open()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--http ", address,
                     " can be read from other machines, and there are no tokens: anybody could "
                     "read prompts and responses. Give --token-file FILE (one token a line), or "
                     "listen on 127.0.0.1"));
  }
  if (!loopback && !options.insecure) {
    return absl::FailedPreconditionError(
        absl::StrCat("--http ", address,
                     " can be reached from other machines, and tokens would travel there in clear "
                     "text. Listen on 127.0.0.1 behind a proxy that speaks TLS, or give --insecure "
                     "where the network is trusted"));
  }
  auto server = std::make_unique<StatusServerImpl>(controller, std::move(options), loopback);
  BATON_RETURN_IF_ERROR(server->Listen(address, endpoint));
  return server;
}

}  // namespace baton::status
