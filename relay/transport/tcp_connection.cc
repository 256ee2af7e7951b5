#include "relay/transport/tcp_connection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "boost/asio/post.hpp"
#include "sdk/common/base/status_macros.h"

namespace baton::relay {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr size_t kFramesAtOnce = 16;
constexpr uint64_t kBytesAtOnce = 4 << 20;
// After so many the other connections of the thread have their turn.
constexpr uint64_t kReadBytesAtOnce = 4 << 20;
constexpr absl::Duration kFlush = absl::Seconds(1);

}  // namespace

TcpConnection::TcpConnection(std::shared_ptr<TcpStream> stream, FrameLimits limits,
                             absl::Duration silence, std::function<void()> ended)
    : ended_(std::move(ended)),
      stream_(std::move(stream)),
      limits_(limits),
      silence_(silence),
      reader_(limits),
      timer_(stream_->socket().get_executor()) {
  error_code error;
  stream_->socket().set_option(asio::ip::tcp::no_delay(true), error);
  const auto endpoint = stream_->socket().remote_endpoint(error);
  peer_ = error ? "unknown" : absl::StrCat(endpoint.address().to_string(), ":", endpoint.port());
}

TcpConnection::~TcpConnection() {
  if (state_ != State::kClosed) ended_();
}

void TcpConnection::Start(std::shared_ptr<ConnectionHandler> handler) {
  handler_ = std::move(handler);
  if (state_ == State::kClosed) return Finish(closing_);  // before it began
  if (state_ == State::kClosing) return;
  Read();
  Tick();
}

void TcpConnection::Send(std::string message) {
  if (message.size() > limits_.message_bytes) {
    return Close(absl::InvalidArgumentError(
        absl::StrCat("a message of ", message.size(), " bytes, at most ", limits_.message_bytes)));
  }
  Frame frame;
  frame.type = FrameType::kMessage;
  frame.size_bytes = message.size();
  Enqueue(frame, std::move(message), {}, nullptr);
}

void TcpConnection::Put(uint64_t region, uint64_t offset, absl::Span<const uint8_t> bytes,
                        uint64_t xxh3, std::function<void()> done) {
  Enqueue({FrameType::kPut, bytes.size(), region, offset, xxh3}, "", bytes, std::move(done));
}

void TcpConnection::Enqueue(const Frame& frame, std::string message,
                            absl::Span<const uint8_t> bytes, std::function<void()> done) {
  if (state_ != State::kOpen) {
    if (done) asio::post(stream_->socket().get_executor(), std::move(done));
    return;
  }
  outgoing_.push_back({EncodeFrame(frame), std::move(message), bytes, std::move(done)});
  if (writing_ == 0) Write();
}

void TcpConnection::Write() {
  std::vector<asio::const_buffer> buffers;
  uint64_t bytes = 0;
  for (const Outgoing& frame : outgoing_) {
    if (writing_ == kFramesAtOnce || bytes >= kBytesAtOnce) break;
    ++writing_;
    bytes += frame.message.size() + frame.bytes.size();
    buffers.emplace_back(frame.header.data(), frame.header.size());
    if (!frame.message.empty()) buffers.emplace_back(frame.message.data(), frame.message.size());
    if (!frame.bytes.empty()) buffers.emplace_back(frame.bytes.data(), frame.bytes.size());
  }
  stream_->Write(buffers,
                 [self = shared_from_this()](const error_code& error) { self->Wrote(error); });
}

void TcpConnection::Wrote(const error_code& error) {
  std::vector<std::function<void()>> done;
  const size_t ended = error || state_ == State::kClosed ? outgoing_.size() : writing_;
  for (size_t i = 0; i < ended; ++i) {
    if (outgoing_.front().done) done.push_back(std::move(outgoing_.front().done));
    outgoing_.pop_front();
  }
  writing_ = 0;
  last_write_ = BootNow();
  if (error && state_ != State::kClosed) {
    Finish(state_ == State::kClosing
               ? closing_
               : absl::UnavailableError(
                     absl::StrCat("the connection to ", peer_, " broke: ", error.message())));
  }
  for (auto& call : done) call();
  if (state_ == State::kClosed) return;
  if (writing_ == 0 && !outgoing_.empty()) return Write();
  if (state_ == State::kClosing && outgoing_.empty()) Finish(closing_);
}

void TcpConnection::Read() {
  stream_->WaitForBytes([self = shared_from_this()](const error_code& error) {
    if (self->state_ != State::kOpen) return;
    const absl::Status status =
        error ? absl::UnavailableError(
                    absl::StrCat("the connection to ", self->peer_, " broke: ", error.message()))
              : self->ReadAll();
    if (!status.ok()) return self->Finish(status);
    if (self->state_ == State::kOpen) self->Read();
  });
}

absl::Status TcpConnection::ReadAll() {
  for (uint64_t all = 0; all < kReadBytesAtOnce && state_ == State::kOpen;) {
    error_code error;
    const absl::Span<uint8_t> space = reader_.Space();
    const size_t bytes = stream_->ReadSome(space, error);
    if (error == asio::error::would_block) break;
    if (error) {
      return absl::UnavailableError(
          error == asio::error::eof
              ? absl::StrCat(peer_, " closed the connection")
              : absl::StrCat("the connection to ", peer_, " broke: ", error.message()));
    }
    all += bytes;
    last_read_ = BootNow();
    BATON_RETURN_IF_ERROR(Annotate(reader_.Filled(bytes, this), peer_));
  }
  return absl::OkStatus();
}

// A frame whose bytes came together with the one that made the handler close is not heard.
void TcpConnection::Message(std::string message) {
  if (state_ == State::kOpen) handler_->OnMessage(std::move(message));
}

void TcpConnection::Put(const PutArrival& put) {
  if (state_ == State::kOpen) handler_->OnPut(put);
}

void TcpConnection::Tick() {
  timer_.expires_after(absl::ToChronoNanoseconds(silence_ / 3));
  timer_.async_wait([weak = weak_from_this()](const error_code& error) {
    const auto self = weak.lock();
    if (error || self == nullptr || self->state_ != State::kOpen) return;
    const absl::Time now = BootNow();
    if (now - self->last_read_ >= self->silence_) {
      return self->Finish(absl::DeadlineExceededError(absl::StrCat(
          "nothing came from ", self->peer_, " for ", absl::FormatDuration(self->silence_))));
    }
    if (self->outgoing_.empty()) self->Enqueue(Frame(), "", {}, nullptr);
    self->Tick();
  });
}

void TcpConnection::Close(const absl::Status& status) {
  if (state_ != State::kOpen) return;
  state_ = State::kClosing;
  closing_ = status;
  timer_.expires_after(
      absl::ToChronoNanoseconds(outgoing_.empty() ? absl::ZeroDuration() : kFlush));
  timer_.async_wait(
      [self = shared_from_this()](const error_code&) { self->Finish(self->closing_); });
}

void TcpConnection::Finish(const absl::Status& status) {
  if (state_ != State::kClosed) {
    state_ = State::kClosed;
    closing_ = status;
    timer_.cancel();
    error_code error;
    stream_->socket().shutdown(asio::ip::tcp::socket::shutdown_both, error);
    stream_->socket().close(error);
    ended_();
    if (writing_ == 0) Wrote({});  // otherwise the system answers, and reads no more
  }
  if (handler_ == nullptr) return;
  asio::post(stream_->socket().get_executor(),
             [handler = std::exchange(handler_, nullptr), status] { handler->OnClosed(status); });
}

}  // namespace baton::relay
