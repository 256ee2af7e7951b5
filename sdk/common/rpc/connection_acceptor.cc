#include "sdk/common/rpc/connection_acceptor.h"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ip/v6_only.hpp"
#include "boost/asio/steady_timer.hpp"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"

namespace baton {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr int kAtOnce = 32;  // then the other listening sockets have a turn
constexpr int kUnacknowledged =
    30000;  // milliseconds: TCP_USER_TIMEOUT, as gRPC's listener sets it

std::string TextOf(const error_code& error) { return std::strerror(error.value()); }

absl::StatusOr<std::vector<tcp::endpoint>> Resolve(asio::io_context& io,
                                                   absl::string_view address) {
  for (absl::string_view scheme : {"dns:///", "dns:", "ipv4:", "ipv6:"}) {
    if (absl::ConsumePrefix(&address, scheme)) break;
  }
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || colon == 0 || colon + 1 == address.size()) {
    return absl::InvalidArgumentError("it is not host:port");
  }
  absl::string_view host = address.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) {
    return absl::InvalidArgumentError("it lacks a ]");
  }
  error_code error;
  const auto found =
      tcp::resolver(io).resolve(std::string(host), std::string(address.substr(colon + 1)),
                                tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error) return absl::InvalidArgumentError(error.message());
  std::vector<tcp::endpoint> endpoints;
  for (const auto& one : found) {
    if (one.endpoint().address().is_unspecified()) {  // all addresses, of both kinds
      return std::vector<tcp::endpoint>{{tcp::v6(), one.endpoint().port()}};
    }
    endpoints.push_back(one.endpoint());
  }
  return endpoints;
}

class TcpAcceptor : public ConnectionAcceptor {
 public:
  explicit TcpAcceptor(int max) : table_(std::make_shared<ConnectionTable>(max)), pause_(io_) {}
  ~TcpAcceptor() override {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Bind(absl::string_view address) {
    BATON_ASSIGN_OR_RETURN(auto endpoints, Resolve(io_, address));
    error_code error;
    for (tcp::endpoint& endpoint : endpoints) {
      if (port_ != 0) endpoint.port(static_cast<uint16_t>(port_));  // the same for all
      error = BindOne(endpoint);
      if (error && endpoint.address().is_unspecified()) {  // a machine without IPv6
        error = BindOne({tcp::v4(), endpoint.port()});
      }
      if (error == asio::error::address_in_use) break;
    }
    if (error == asio::error::address_in_use || listeners_.empty()) {
      return absl::UnavailableError(TextOf(error));
    }
    return absl::OkStatus();
  }

  void AddTo(grpc::ServerBuilder& builder,
             const std::shared_ptr<grpc::ServerCredentials>& credentials) override {
    grpc_ = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  }

  void Start() override {
    for (tcp::acceptor& listener : listeners_) Await(&listener);
    thread_ = std::thread([this] { io_.run(); });
  }

  int port() const override { return port_; }
  const std::shared_ptr<ConnectionTable>& table() const override { return table_; }

 private:
  error_code BindOne(const tcp::endpoint& endpoint) {
    error_code error;
    tcp::acceptor listener(io_);
    listener.open(endpoint.protocol(), error);
    if (!error) listener.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error && endpoint.protocol() == tcp::v6()) {
      listener.set_option(asio::ip::v6_only(!endpoint.address().is_unspecified()), error);
    }
    if (!error) listener.bind(endpoint, error);
    if (!error) listener.listen(asio::socket_base::max_listen_connections, error);
    if (!error) listener.native_non_blocking(true, error);
    if (error) return error;
    port_ = listener.local_endpoint().port();
    listeners_.push_back(std::move(listener));
    return error;
  }

  void Await(tcp::acceptor* listener) {
    listener->async_wait(tcp::acceptor::wait_read, [this, listener](const error_code& error) {
      if (error) return;
      if (AcceptSome(listener->native_handle())) return Await(listener);
      pause_.expires_after(std::chrono::milliseconds(100));
      pause_.async_wait([this, listener](const error_code&) { Await(listener); });
    });
  }

  // False: try again later.
  bool AcceptSome(int listener) {
    for (int i = 0; i < kAtOnce; ++i) {
      const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        Take(listener, fd);
        continue;
      }
      if (errno == EAGAIN) return true;
      if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) continue;
      Log(LogLevel::kError, "a connection cannot be accepted",
          {{"error", std::strerror(errno)}, {"connections", table_->size()}});
      return false;
    }
    return true;
  }

  void Take(int listener, int fd) {
    if (!table_->Enter(fd)) {
      ::close(fd);
      return;
    }
    const int yes = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnacknowledged, sizeof(kUnacknowledged));
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
    connection.listener_fd = listener;
    connection.fd = fd;
    grpc_->HandleNewConnection(&connection);
  }

  const std::shared_ptr<ConnectionTable> table_;
  asio::io_context io_{1};
  asio::steady_timer pause_;
  std::list<tcp::acceptor> listeners_;
  int port_ = 0;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> grpc_;
  std::thread thread_;
};

// The socket file's permissions decide who may connect, so gRPC itself listens there.
class UnixAcceptor : public ConnectionAcceptor {
 public:
  UnixAcceptor(std::string address, int max)
      : address_(std::move(address)), table_(std::make_shared<ConnectionTable>(max)) {}
  void AddTo(grpc::ServerBuilder& builder,
             const std::shared_ptr<grpc::ServerCredentials>& credentials) override {
    builder.AddListeningPort(address_, credentials);
  }
  void Start() override {}
  int port() const override { return 0; }
  const std::shared_ptr<ConnectionTable>& table() const override { return table_; }

 private:
  const std::string address_;
  const std::shared_ptr<ConnectionTable> table_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> ConnectionAcceptor::Listen(
    const std::string& address, int max) {
  if (absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:")) {
    return std::make_unique<UnixAcceptor>(address, max);
  }
  auto acceptor = std::make_unique<TcpAcceptor>(max);
  BATON_RETURN_IF_ERROR(acceptor->Bind(address));
  return acceptor;
}

}  // namespace baton
