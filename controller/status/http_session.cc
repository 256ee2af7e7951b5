#include "controller/status/http_session.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "boost/asio/post.hpp"
#include "boost/beast/http/read.hpp"
#include "boost/beast/http/write.hpp"

namespace baton::status {

namespace beast = boost::beast;
namespace http = boost::beast::http;

namespace {

std::chrono::milliseconds Millis(absl::Duration duration) {
  return std::chrono::milliseconds(absl::ToInt64Milliseconds(duration));
}

constexpr char kNoToken[] = " ";  // no token is equal to this

}  // namespace

void HttpShared::Post(std::function<void()> work) {
  absl::MutexLock lock(&mu_);
  if (io_ != nullptr) boost::asio::post(*io_, std::move(work));
}

void HttpShared::Stop() {
  absl::MutexLock lock(&mu_);
  io_ = nullptr;
}

bool IsLocalHostHeader(absl::string_view host) {
  if (absl::StartsWith(host, "[")) return absl::StartsWith(host, "[::1]");
  host = host.substr(0, host.find(':'));
  if (host == "localhost") return true;
  // Only digits and dots: "127.evil.example" is a name of another machine.
  return absl::StartsWith(host, "127.") &&
         host.find_first_not_of("0123456789.") == absl::string_view::npos;
}

HttpSession::HttpSession(boost::asio::ip::tcp::socket socket, std::shared_ptr<HttpShared> shared)
    : shared_(std::move(shared)), stream_(std::move(socket)), timer_(stream_.get_executor()) {
  ++shared_->connections;
}

HttpSession::~HttpSession() {
  StopWaiting();
  --shared_->connections;
}

void HttpSession::StopWaiting() {
  if (wait_ != 0) shared_->waiting.erase(std::exchange(wait_, 0));
}

void HttpSession::Read() {
  wait_ = ++shared_->next_wait;
  shared_->waiting[wait_] = this;
  parser_.emplace();
  parser_->header_limit(shared_->limits.header_bytes);
  stream_.expires_after(Millis(shared_->limits.read));
  // Only the header, because no route takes a body.
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](const beast::error_code& error, size_t) {
                            self->OnRequest(error);
                          });
}

void HttpSession::OnRequest(const beast::error_code& error) {
  StopWaiting();
  keep_alive_ = !error && parser_->keep_alive();
  if (error == http::error::header_limit) {
    return Write(ErrorAnswer(431, "the request's header is too large"));
  }
  if (error.category() == http::make_error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message) {
    return Write(ErrorAnswer(400, absl::StrCat("this is not HTTP: ", error.message())));
  }
  // The peer has left or was silent for too long: the socket closes with this object.
  if (error) return;
  if (auto refusal = Refusal()) return Write(*std::move(refusal));
  Ask(std::string(parser_->get().target()));
}

std::optional<HttpAnswer> HttpSession::Refusal() {
  const auto& request = parser_->get();
  if (request.method() != http::verb::get && request.method() != http::verb::head) {
    return ErrorAnswer(405,
                       "HTTP is read-only here: GET and HEAD. Submit and steer jobs over gRPC or "
                       "with the baton command");
  }
  const auto length = parser_->content_length();
  if (parser_->chunked() || (length.has_value() && *length > 0)) {
    return ErrorAnswer(413, "this request must not have a body");
  }
  const std::string target(request.target());
  if (IsProbe(target)) return std::nullopt;
  const std::string token = ShownToken();
  if (token.empty() && shared_->loopback && shared_->tokens->open()) {
    const auto host = request[http::field::host];
    if (!host.empty() && !IsLocalHostHeader(absl::string_view(host.data(), host.size()))) {
      return ErrorAnswer(
          403, absl::StrCat("Host ", std::string(host), " is not this machine; use localhost"));
    }
  }
  const auto caller = shared_->tokens->Find(token, absl::Now());
  if (!caller.ok()) {
    return ErrorAnswer(401, absl::StrCat(caller.status().message(),
                                         ": Authorization: Bearer TOKEN, or as the password in a "
                                         "browser"));
  }
  if (!caller->May(access::Scope::kRead)) {
    return ErrorAnswer(403, absl::StrCat("token ", caller->name, " does not have the scope read"));
  }
  project_ = caller->project;
  return std::nullopt;
}

std::string HttpSession::ShownToken() const {
  const std::string value(parser_->get()[http::field::authorization]);
  if (absl::StartsWith(value, "Bearer ")) return value.substr(7);
  std::string user_and_password;
  if (!absl::StartsWith(value, "Basic ") ||
      !absl::Base64Unescape(value.substr(6), &user_and_password)) {
    return value.empty() ? "" : kNoToken;
  }
  const size_t colon = user_and_password.find(':');
  return colon == std::string::npos ? kNoToken : user_and_password.substr(colon + 1);
}

void HttpSession::Ask(const std::string& target) {
  const uint64_t number = ++asked_;
  waiting_ = true;
  stream_.expires_never();
  timer_.expires_after(Millis(shared_->limits.answer));
  timer_.async_wait([self = shared_from_this(), number](const beast::error_code& error) {
    if (error || !self->waiting_ || self->asked_ != number) return;
    self->Write(ErrorAnswer(504, "the controller did not answer in time; see its log"));
  });
  // The timer keeps this object alive. The controller's callback must not, because it may outlive
  // the server.
  std::weak_ptr<HttpSession> weak = shared_from_this();
  const auto answered = [weak, shared = shared_, number](HttpAnswer answer) {
    shared->Post([weak, number, answer = std::move(answer)]() mutable {
      auto self = weak.lock();
      if (self == nullptr || !self->waiting_ || self->asked_ != number) return;
      self->Write(std::move(answer));
    });
  };
  shared_->router.Answer(target, answered, project_);
}

void HttpSession::Write(HttpAnswer answer) {
  waiting_ = false;
  timer_.cancel();
  response_.emplace(static_cast<http::status>(answer.code), 11);
  response_->set(http::field::content_type, answer.content_type);
  response_->set(http::field::cache_control, "no-store");
  response_->set("X-Content-Type-Options", "nosniff");
  response_->set("Content-Security-Policy",
                 "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                 "connect-src 'self'; img-src data:; frame-ancestors 'none'");
  if (answer.code == 401) {
    response_->set(http::field::www_authenticate, "Basic realm=\"Baton\", charset=\"UTF-8\"");
  }
  if (answer.code == 405) response_->set(http::field::allow, "GET, HEAD");
  // After an error, the rest of the stream cannot be trusted.
  if (answer.code >= 400 && answer.code != 404 && answer.code != 503) keep_alive_ = false;
  response_->keep_alive(keep_alive_);
  response_->content_length(answer.body.size());
  const bool head = parser_->is_header_done() && parser_->get().method() == http::verb::head;
  if (!head) response_->body() = std::move(answer.body);
  stream_.expires_after(Millis(shared_->limits.write));
  http::async_write(
      stream_, *response_, [self = shared_from_this()](const beast::error_code& error, size_t) {
        if (!error && self->keep_alive_) return self->Read();
        beast::error_code ignored;
        self->stream_.socket().shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
      });
}

}  // namespace baton::status
