// Connections between relays: small messages, and writes into memory that the peer has offered.
//
// The interface is that of RDMA (register memory, one-sided writes, small control messages), so
// that UCX or Mooncake's transfer engine can be laid under it. TcpTransport is the one that is
// there.
//
//   receiver: connection->Offer(7, memory); connection->Send("write region 7");
//   sender:   connection->Put(7, 0, bytes, Xxh3(bytes), done);
//   receiver: OnPut({7, 0, size, xxh3}): the bytes are in `memory`, and nobody has verified them
#ifndef BATON_RELAY_TRANSPORT_TRANSPORT_H_
#define BATON_RELAY_TRANSPORT_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace baton::relay {

/// A write of the peer, as the peer describes it.
struct PutArrival {
  uint64_t region = 0;
  uint64_t offset = 0;  ///< Into the region.
  uint64_t size_bytes = 0;
  uint64_t xxh3 = 0;  ///< XXH3-64 of the bytes that were sent. The transport does not check it.
};

/// Hears of a connection. Every call comes on the transport's thread, and none inside a call of the
/// connection's functions.
class ConnectionHandler {
 public:
  virtual ~ConnectionHandler() = default;
  /// Messages and puts come in the order in which the peer sent them.
  virtual void OnMessage(std::string message) = 0;
  /// The bytes lie in the offered memory. Not where they were to go into bytes under Protect: those
  /// stay as they are, and the bytes that came are thrown away.
  virtual void OnPut(const PutArrival& put) = 0;
  /// The last call, once. The status of Close; or UNAVAILABLE: the connection broke or the peer
  /// closed it; DEADLINE_EXCEEDED: the peer was silent; INVALID_ARGUMENT: what came is no frame;
  /// OUT_OF_RANGE: a put outside of its region, or into one that was never offered;
  /// FAILED_PRECONDITION: a put of which only a part is protected.
  virtual void OnClosed(const absl::Status& status) = 0;
};

/// One end of a connection. All functions are called on the transport's thread. After the end they
/// do nothing, but `done` of Put is called. Once started it lives until it ends, whoever holds it.
class Connection {
 public:
  virtual ~Connection() = default;

  /// Begins to read. Once. The connection holds the handler until OnClosed.
  virtual void Start(std::shared_ptr<ConnectionHandler> handler) = 0;
  /// At most FrameLimits::message_bytes; a longer message closes the connection.
  virtual void Send(std::string message) = 0;

  /// The peer may write into `memory` from now on. A connection uses no region's number twice, and
  /// numbers grow.
  virtual void Offer(uint64_t region, absl::Span<uint8_t> memory) = 0;
  /// Nothing changes the first `bytes` of the region any more. Grows.
  virtual void Protect(uint64_t region, uint64_t bytes) = 0;
  /// Nothing writes into the memory any more. Puts that are still on their way are thrown away.
  virtual void Withdraw(uint64_t region) = 0;

  /// Writes into memory that the peer has offered, before later messages arrive. At most
  /// FrameLimits::put_bytes. `done` is called once, when the bytes are not read any more: that may
  /// be after OnClosed, and it does not mean that they arrived.
  virtual void Put(uint64_t region, uint64_t offset, absl::Span<const uint8_t> bytes, uint64_t xxh3,
                   std::function<void()> done) = 0;

  /// Ends the connection. What was sent before still goes out if the peer takes it within a second.
  virtual void Close(const absl::Status& status) = 0;
  /// The peer's address, for messages.
  virtual std::string peer() const = 0;
};

/// Makes connections. Has one thread, on which all handlers and callbacks run; they must not block.
/// All functions may be called on any thread. The destructor closes every connection with CANCELLED
/// and runs what was posted; timers and connects that are not over are dropped.
class Transport {
 public:
  using Accepted = std::function<void(std::shared_ptr<Connection>)>;
  using Connected = std::function<void(absl::StatusOr<std::shared_ptr<Connection>>)>;
  virtual ~Transport() = default;

  /// Answers the address, host:port with the real port. INVALID_ARGUMENT: no such address can be;
  /// UNAVAILABLE: it is in use, or not this machine's.
  virtual absl::StatusOr<std::string> Listen(const std::string& address, Accepted accepted) = 0;
  /// UNAVAILABLE: refused; DEADLINE_EXCEEDED; UNAUTHENTICATED: one end does not trust the other.
  virtual void Connect(const std::string& address, Connected connected) = 0;

  virtual void Post(std::function<void()> call) = 0;
  virtual void After(absl::Duration delay, std::function<void()> call) = 0;
  /// The clock of After.
  virtual absl::Time Now() const = 0;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_TRANSPORT_TRANSPORT_H_
