#include "relay/transport/tcp_transport.h"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "boost/asio/basic_waitable_timer.hpp"
#include "boost/asio/connect.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/post.hpp"
#include "boost/asio/ssl/error.hpp"
#include "boost/asio/thread_pool.hpp"
#include "relay/transport/tcp_connection.h"
#include "relay/transport/tcp_stream.h"
#include "sdk/common/base/clock.h"
#include "sdk/common/base/log.h"
#include "sdk/common/base/status_macros.h"

namespace baton::relay {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Timer = asio::basic_waitable_timer<BootClock>;

struct HostAndPort {
  std::string host;  ///< Without brackets.
  std::string port;
};

absl::StatusOr<HostAndPort> ParseAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 || port > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("relay address: \"", address, "\" is not host:port, e.g. 10.0.0.7:7080"));
  }
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) {
    return absl::InvalidArgumentError(absl::StrCat("relay address: \"", address, "\" lacks a ]"));
  }
  return HostAndPort{std::string(host), std::to_string(port)};
}

/// What one Connect tries, until it is over.
struct Attempt {
  explicit Attempt(asio::thread_pool& pool) : resolver(pool), timer(pool) {}
  std::string address, host;
  tcp::resolver resolver;
  Timer timer;
  std::unique_ptr<tcp::socket> socket;
  TcpStream* stream = nullptr;  ///< While it shakes hands.
  bool late = false, over = false;

  void End() {
    late = true;
    error_code error;
    resolver.cancel();
    if (socket != nullptr) socket->close(error);
    if (stream != nullptr) stream->socket().close(error);
  }
};

absl::Status ConnectError(const Attempt& attempt, const error_code& error) {
  const std::string what = absl::StrCat("relay ", attempt.address, ": ");
  if (attempt.late) {
    return absl::DeadlineExceededError(absl::StrCat(what, "it does not answer"));
  }
  if (error.category() == asio::error::get_ssl_category()) {
    return absl::UnauthenticatedError(absl::StrCat(what, "TLS: ", error.message()));
  }
  return absl::UnavailableError(absl::StrCat(what, error.message()));
}

}  // namespace

/// Lives on its thread, except where said.
class TcpTransport::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(TcpOptions options, std::unique_ptr<asio::ssl::context> tls)
      : options_(std::move(options)), tls_(std::move(tls)) {}

  asio::thread_pool& pool() { return pool_; }

  /// On any thread.
  absl::StatusOr<std::string> Listen(const std::string& address, Accepted accepted) {
    BATON_ASSIGN_OR_RETURN(const HostAndPort parts, ParseAddress(address));
    error_code error;
    const auto host =
        asio::ip::make_address(parts.host == "localhost" ? "127.0.0.1" : parts.host, error);
    if (error) {
      return absl::InvalidArgumentError(
          absl::StrCat("relay address: \"", parts.host, "\" is no IP address of this machine"));
    }
    const tcp::endpoint endpoint(host, static_cast<uint16_t>(std::stoi(parts.port)));
    auto acceptor = std::make_shared<tcp::acceptor>(pool_);
    acceptor->open(endpoint.protocol(), error);
    if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor->bind(endpoint, error);
    if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", address, ": ", error.message()));
    }
    const int port = acceptor->local_endpoint().port();
    asio::post(pool_, [self = shared_from_this(), acceptor, accepted = std::move(accepted)] {
      if (self->stopping_) return;
      self->acceptors_.insert(acceptor);
      self->Accept(acceptor, accepted);
    });
    return absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
  }

  void Connect(const std::string& address, Connected connected) {
    const auto parts = ParseAddress(address);
    if (!parts.ok()) return connected(parts.status());
    if (stopping_) return;
    auto attempt = std::make_shared<Attempt>(pool_);
    attempt->address = address;
    attempt->host = parts->host;
    attempts_.insert(attempt);
    attempt->timer.expires_after(absl::ToChronoNanoseconds(options_.connect_timeout));
    attempt->timer.async_wait([attempt](const error_code& error) {
      if (!error && !attempt->over) attempt->End();
    });
    attempt->resolver.async_resolve(
        parts->host, parts->port,
        [self = shared_from_this(), attempt, connected = std::move(connected)](
            const error_code& error, const tcp::resolver::results_type& found) {
          if (error || attempt->late) return self->Ended(attempt, error, connected);
          self->ConnectTo(attempt, found, connected);
        });
  }

  void After(absl::Duration delay, std::function<void()> call) {
    if (stopping_) return;
    auto timer = std::make_shared<Timer>(pool_);
    timers_.insert(timer);
    timer->expires_after(absl::ToChronoNanoseconds(delay));
    timer->async_wait([self = shared_from_this(), timer, call = std::move(call)](error_code error) {
      self->timers_.erase(timer);
      if (!error && !self->stopping_) call();
    });
  }

  void Stop() {
    stopping_ = true;
    error_code error;
    for (const auto& acceptor : acceptors_) acceptor->close(error);
    acceptors_.clear();
    for (const auto& attempt : attempts_) attempt->End();
    for (const auto& timer : timers_) timer->cancel();
    for (const auto& [id, weak] : std::exchange(connections_, {})) {
      const auto connection = weak.lock();
      if (connection != nullptr) connection->Close(absl::CancelledError("the relay stops"));
    }
  }

 private:
  void Accept(const std::shared_ptr<tcp::acceptor>& acceptor, const Accepted& accepted) {
    acceptor->async_accept([self = shared_from_this(), acceptor, accepted](const error_code& error,
                                                                           tcp::socket socket) {
      if (self->stopping_ || error == asio::error::operation_aborted) return;
      if (error) {  // e.g. no file descriptors are left: do not spin
        Log(LogLevel::kWarn, "cannot accept a relay", {{"error", error.message()}});
        return self->After(absl::Milliseconds(100),
                           [self, acceptor, accepted] { self->Accept(acceptor, accepted); });
      }
      if (self->accepted_ < self->options_.accepted) self->Welcome(std::move(socket), accepted);
      self->Accept(acceptor, accepted);
    });
  }

  void Welcome(tcp::socket socket, const Accepted& accepted) {
    ++accepted_;
    auto attempt = std::make_shared<Attempt>(pool_);
    Shake(attempt, std::move(socket), "", [self = shared_from_this(), accepted](auto connection) {
      if (connection.ok()) accepted(*std::move(connection));
    });
  }

  void ConnectTo(const std::shared_ptr<Attempt>& attempt, const tcp::resolver::results_type& found,
                 const Connected& connected) {
    attempt->socket = std::make_unique<tcp::socket>(pool_);
    asio::async_connect(*attempt->socket, found,
                        [self = shared_from_this(), attempt, connected](const error_code& error,
                                                                        const tcp::endpoint&) {
                          if (error || attempt->late) return self->Ended(attempt, error, connected);
                          tcp::socket socket = std::move(*attempt->socket);
                          attempt->socket = nullptr;
                          self->Shake(attempt, std::move(socket), attempt->host, connected);
                        });
  }

  /// `host`: empty for a connection that another end began.
  void Shake(const std::shared_ptr<Attempt>& attempt, tcp::socket socket, const std::string& host,
             const Connected& connected) {
    const bool from_other = host.empty();
    std::shared_ptr<TcpStream> stream = tls_ == nullptr
                                            ? MakeClearStream(std::move(socket))
                                            : MakeTlsStream(std::move(socket), tls_.get());
    if (from_other) {  // its deadline begins here
      attempts_.insert(attempt);
      attempt->timer.expires_after(absl::ToChronoNanoseconds(options_.connect_timeout));
      attempt->timer.async_wait([attempt](const error_code& error) {
        if (!error && !attempt->over) attempt->End();
      });
    }
    attempt->stream = stream.get();
    stream->Handshake(host, [self = shared_from_this(), attempt, stream, connected,
                             from_other](error_code error) {
      attempt->stream = nullptr;
      if (error || attempt->late || self->stopping_) {
        if (from_other) --self->accepted_;
        return self->Ended(attempt, error, connected);
      }
      self->Forget(attempt);
      connected(self->Keep(stream, from_other));
    });
  }

  std::shared_ptr<Connection> Keep(std::shared_ptr<TcpStream> stream, bool from_other) {
    const uint64_t id = next_connection_++;
    auto connection =
        std::make_shared<TcpConnection>(std::move(stream), options_.limits, options_.silence,
                                        [self = shared_from_this(), id, from_other] {
                                          self->connections_.erase(id);
                                          if (from_other) --self->accepted_;
                                        });
    connections_[id] = connection;
    return connection;
  }

  void Ended(const std::shared_ptr<Attempt>& attempt, const error_code& error,
             const Connected& connected) {
    Forget(attempt);
    if (!stopping_) connected(ConnectError(*attempt, error));
  }

  void Forget(const std::shared_ptr<Attempt>& attempt) {
    attempt->over = true;
    attempt->timer.cancel();
    attempts_.erase(attempt);
  }

  const TcpOptions options_;
  const std::unique_ptr<asio::ssl::context> tls_;  ///< Null: in clear text.
  bool stopping_ = false;
  int accepted_ = 0;  ///< Connections from others, those that still shake hands too.
  uint64_t next_connection_ = 1;
  std::map<uint64_t, std::weak_ptr<Connection>> connections_;
  std::set<std::shared_ptr<tcp::acceptor>> acceptors_;
  std::set<std::shared_ptr<Attempt>> attempts_;
  std::set<std::shared_ptr<Timer>> timers_;
  asio::thread_pool pool_{1};
};

absl::StatusOr<std::unique_ptr<TcpTransport>> TcpTransport::Create(TcpOptions options) {
  std::unique_ptr<asio::ssl::context> tls;
  if (options.tls.any()) {
    BATON_ASSIGN_OR_RETURN(tls, MakeTlsContext(options.tls));
  }
  return std::unique_ptr<TcpTransport>(
      new TcpTransport(std::make_shared<Impl>(std::move(options), std::move(tls))));
}

TcpTransport::TcpTransport(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

TcpTransport::~TcpTransport() {
  asio::post(impl_->pool(), [impl = impl_.get()] { impl->Stop(); });
  impl_->pool().join();
}

absl::StatusOr<std::string> TcpTransport::Listen(const std::string& address, Accepted accepted) {
  return impl_->Listen(address, std::move(accepted));
}

void TcpTransport::Connect(const std::string& address, Connected connected) {
  Post([this, address, connected = std::move(connected)] { impl_->Connect(address, connected); });
}

void TcpTransport::Post(std::function<void()> call) { asio::post(impl_->pool(), std::move(call)); }

void TcpTransport::After(absl::Duration delay, std::function<void()> call) {
  Post([this, delay, call = std::move(call)] { impl_->After(delay, call); });
}

absl::Time TcpTransport::Now() const { return BootNow(); }

}  // namespace baton::relay
