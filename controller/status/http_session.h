// The session of one HTTP connection.
#ifndef BATON_CONTROLLER_STATUS_HTTP_SESSION_H_
#define BATON_CONTROLLER_STATUS_HTTP_SESSION_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/steady_timer.hpp"
#include "boost/beast/core/flat_buffer.hpp"
#include "boost/beast/core/tcp_stream.hpp"
#include "boost/beast/http/empty_body.hpp"
#include "boost/beast/http/message.hpp"
#include "boost/beast/http/parser.hpp"
#include "boost/beast/http/string_body.hpp"
#include "controller/access/token_table.h"
#include "controller/status/status_router.h"

namespace baton::status {

/// Limits of a connection.
struct HttpLimits {
  absl::Duration read = absl::Seconds(30);    ///< Until a request has arrived; idle time included.
  absl::Duration write = absl::Seconds(30);   ///< Until an answer has been sent.
  absl::Duration answer = absl::Seconds(20);  ///< Until the controller answers; then 504.
  uint32_t header_bytes = 16 * 1024;          ///< Above this, 431.
  /// Above this number, the connection that has waited longest for a request is closed. If all
  /// connections are being answered, the new one is closed.
  int connections = 256;
};

class HttpSession;

/// State that all sessions of a server share. Callbacks of the controller, which may come after the
/// server is destroyed, reach the server's thread only through this object.
class HttpShared {
 public:
  HttpShared(boost::asio::io_context* io, controller::ControllerInterface* controller,
             std::shared_ptr<const access::TokenTable> tokens, bool loopback,
             const HttpLimits& limits, MoreGauges gauges)
      : router(controller, std::move(gauges)),
        tokens(std::move(tokens)),
        loopback(loopback),
        limits(limits),
        io_(io) {}

  /// Runs `work` on the server's thread, or never if the server has stopped. Thread-safe.
  void Post(std::function<void()> work);
  void Stop();

  const StatusRouter router;
  const std::shared_ptr<const access::TokenTable> tokens;
  const bool loopback;
  const HttpLimits limits;
  // On the server's thread.
  int connections = 0;
  /// Connections without a complete request, in the order in which they began to wait for one.
  std::map<uint64_t, HttpSession*> waiting;
  uint64_t next_wait = 0;

 private:
  absl::Mutex mu_;
  boost::asio::io_context* io_ ABSL_GUARDED_BY(mu_);
};

/// Reads requests one after the other and answers each. Lives on the server's thread while one of
/// its operations is running.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(boost::asio::ip::tcp::socket socket, std::shared_ptr<HttpShared> shared);
  ~HttpSession();
  void Start() { Read(); }
  /// Closes a connection that waits for a request.
  void GiveUp() {
    StopWaiting();
    stream_.close();
  }

 private:
  void StopWaiting();
  void Read();
  void OnRequest(const boost::beast::error_code& error);
  void Ask(const std::string& target);
  void Write(HttpAnswer answer);
  /// OK, or why this request gets no answer.
  std::optional<HttpAnswer> Refusal();
  /// The caller's token, from Bearer or the password of Basic; empty: none.
  std::string ShownToken() const;

  const std::shared_ptr<HttpShared> shared_;
  boost::beast::tcp_stream stream_;
  boost::asio::steady_timer timer_;  // for the controller's answer
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::empty_body>> parser_;
  std::optional<boost::beast::http::response<boost::beast::http::string_body>> response_;
  std::string project_ = "*";  // the project that this request may read
  uint64_t wait_ = 0;          // its number in HttpShared::waiting; 0: it has a request
  uint64_t asked_ = 0;         // requests so far; a late answer to an earlier one is dropped
  bool keep_alive_ = false;
  bool waiting_ = false;
};

/// True for a Host header that names this machine: "localhost", "127.x.y.z", "[::1]", with or
/// without a port. With another name, a foreign web page could read what loopback protects.
bool IsLocalHostHeader(absl::string_view host);

}  // namespace baton::status

#endif  // BATON_CONTROLLER_STATUS_HTTP_SESSION_H_
