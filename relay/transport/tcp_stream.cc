#include "relay/transport/tcp_stream.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "boost/asio/post.hpp"
#include "boost/asio/ssl/host_name_verification.hpp"
#include "boost/asio/ssl/stream.hpp"
#include "boost/asio/write.hpp"
#include "sdk/common/base/status_macros.h"

namespace baton::relay {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

/// Bytes go from the socket straight to where they belong.
class ClearStream : public TcpStream {
 public:
  explicit ClearStream(tcp::socket socket) : socket_(std::move(socket)) {}

  tcp::socket& socket() override { return socket_; }
  void Handshake(const std::string&, Waited done) override {
    ErrorCode error;
    socket_.non_blocking(true, error);
    asio::post(socket_.get_executor(), [done = std::move(done), error] { done(error); });
  }
  // No read is left to the system: memory may be withdrawn meanwhile.
  void WaitForBytes(Waited done) override {
    socket_.async_wait(tcp::socket::wait_read, std::move(done));
  }
  size_t ReadSome(absl::Span<uint8_t> space, ErrorCode& error) override {
    return socket_.read_some(asio::buffer(space.data(), space.size()), error);
  }
  void Write(const std::vector<asio::const_buffer>& buffers, Waited done) override {
    asio::async_write(socket_, buffers,
                      [done = std::move(done)](const ErrorCode& error, size_t) { done(error); });
  }

 private:
  tcp::socket socket_;
};

/// Bytes that were decrypted wait here until they are asked for.
class TlsStream : public TcpStream {
 public:
  TlsStream(tcp::socket socket, asio::ssl::context* context)
      : stream_(std::move(socket), *context) {}

  tcp::socket& socket() override { return stream_.next_layer(); }
  void Handshake(const std::string& host, Waited done) override {
    const bool client = !host.empty();
    if (client) {
      SSL_set_tlsext_host_name(stream_.native_handle(), host.c_str());
      stream_.set_verify_callback(asio::ssl::host_name_verification(host));
    }
    stream_.async_handshake(
        client ? asio::ssl::stream_base::client : asio::ssl::stream_base::server, std::move(done));
  }
  void WaitForBytes(Waited done) override {
    if (begin_ < end_) {
      asio::post(stream_.get_executor(), [done = std::move(done)] { done({}); });
      return;
    }
    stream_.async_read_some(asio::buffer(bytes_),
                            [this, done = std::move(done)](const ErrorCode& error, size_t bytes) {
                              begin_ = 0;
                              end_ = bytes;
                              done(bytes > 0 ? ErrorCode() : error);
                            });
  }
  size_t ReadSome(absl::Span<uint8_t> space, ErrorCode& error) override {
    const size_t bytes = std::min(space.size(), end_ - begin_);
    error = bytes > 0 ? ErrorCode() : asio::error::would_block;
    std::memcpy(space.data(), bytes_.data() + begin_, bytes);
    begin_ += bytes;
    return bytes;
  }
  void Write(const std::vector<asio::const_buffer>& buffers, Waited done) override {
    asio::async_write(stream_, buffers,
                      [done = std::move(done)](const ErrorCode& error, size_t) { done(error); });
  }

 private:
  asio::ssl::stream<tcp::socket> stream_;
  std::array<uint8_t, 64 << 10> bytes_;
  size_t begin_ = 0, end_ = 0;
};

absl::Status TlsError(const std::string& what, const std::string& path,
                      const boost::system::error_code& error) {
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("TLS: ", what, " '", path, "': ", error.message()));
}

}  // namespace

std::unique_ptr<TcpStream> MakeClearStream(tcp::socket socket) {
  return std::make_unique<ClearStream>(std::move(socket));
}

std::unique_ptr<TcpStream> MakeTlsStream(tcp::socket socket, asio::ssl::context* context) {
  return std::make_unique<TlsStream>(std::move(socket), context);
}

absl::StatusOr<std::unique_ptr<asio::ssl::context>> MakeTlsContext(const TlsFiles& files) {
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls);
  boost::system::error_code error;
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_3_VERSION);
  context->load_verify_file(files.ca, error);
  BATON_RETURN_IF_ERROR(TlsError("authorities", files.ca, error));
  context->use_certificate_chain_file(files.certificate, error);
  BATON_RETURN_IF_ERROR(TlsError("certificate", files.certificate, error));
  context->use_private_key_file(files.key, asio::ssl::context::pem, error);
  BATON_RETURN_IF_ERROR(TlsError("key", files.key, error));
  context->set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert, error);
  BATON_RETURN_IF_ERROR(TlsError("peers", files.ca, error));
  return context;
}

}  // namespace baton::relay
