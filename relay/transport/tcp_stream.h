// The bytes of a TCP connection, in clear text or under TLS.
#ifndef BATON_RELAY_TRANSPORT_TCP_STREAM_H_
#define BATON_RELAY_TRANSPORT_TCP_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "boost/asio/buffer.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "boost/asio/ssl/context.hpp"
#include "sdk/common/rpc/tls_files.h"

namespace baton::relay {

/// One thread. A callback comes once, never inside the call; what it captures keeps the stream.
class TcpStream {
 public:
  using ErrorCode = boost::system::error_code;
  using Waited = std::function<void(const ErrorCode&)>;
  virtual ~TcpStream() = default;

  virtual boost::asio::ip::tcp::socket& socket() = 0;
  /// `host`: whom the peer's certificate must name; empty: this end was called.
  virtual void Handshake(const std::string& host, Waited done) = 0;
  /// Until ReadSome has bytes, or an error.
  virtual void WaitForBytes(Waited done) = 0;
  /// `error` is would_block when there are none.
  virtual size_t ReadSome(absl::Span<uint8_t> space, ErrorCode& error) = 0;
  /// All of them; they stay as they are until `done`.
  virtual void Write(const std::vector<boost::asio::const_buffer>& buffers, Waited done) = 0;
};

std::unique_ptr<TcpStream> MakeClearStream(boost::asio::ip::tcp::socket socket);
/// `context` outlives the stream.
std::unique_ptr<TcpStream> MakeTlsStream(boost::asio::ip::tcp::socket socket,
                                         boost::asio::ssl::context* context);

/// Both ends show a certificate that `files.ca` has signed; TLS 1.3. INVALID_ARGUMENT names the
/// file that is missing or cannot be used.
absl::StatusOr<std::unique_ptr<boost::asio::ssl::context>> MakeTlsContext(const TlsFiles& files);

}  // namespace baton::relay

#endif  // BATON_RELAY_TRANSPORT_TCP_STREAM_H_
