// A version that arrives at a relay, chunk by chunk.
#ifndef BATON_RELAY_CHAIN_INBOUND_TRANSFER_H_
#define BATON_RELAY_CHAIN_INBOUND_TRANSFER_H_

#include <cstdint>

#include "absl/status/statusor.h"

namespace baton::relay {

/// Some consecutive bytes of a version.
struct Chunk {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;

  uint64_t end() const { return offset + size_bytes; }
};

/// Knows which bytes have arrived and were verified: always the first ones of the version. What is
/// acknowledged and forwarded follows from that alone. It outlives connections: the next one goes
/// on where the last one ended. Pure.
class InboundTransfer {
 public:
  explicit InboundTransfer(uint64_t size_bytes) : size_bytes_(size_bytes) {}

  /// A connection begins to bring the version, from verified() on. Answers its number; chunks of
  /// earlier connections are stale from now on.
  uint64_t Attach() { return ++connection_; }

  enum class Arrival {
    kVerified,   ///< verified() has grown.
    kDuplicate,  ///< These bytes were verified before; acknowledge them again.
    kStale,      ///< Of an earlier connection: no answer.
  };
  /// Whether the checksum of a chunk's bytes is worth computing.
  bool IsNew(uint64_t connection, const Chunk& chunk) const {
    return connection == connection_ && chunk.end() > verified_;
  }
  /// A chunk lies in memory. `sent` and `found`: its checksum as its sender computed it, and as its
  /// bytes in memory have it. Errors end the connection and change nothing: DATA_LOSS: the
  /// checksums differ; OUT_OF_RANGE: it ends behind the version; FAILED_PRECONDITION: it does not
  /// begin where the verified bytes end.
  absl::StatusOr<Arrival> Arrive(uint64_t connection, const Chunk& chunk, uint64_t sent,
                                 uint64_t found);

  uint64_t size_bytes() const { return size_bytes_; }
  uint64_t verified() const { return verified_; }
  bool complete() const { return verified_ == size_bytes_; }

 private:
  const uint64_t size_bytes_;
  uint64_t verified_ = 0;
  uint64_t connection_ = 0;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_CHAIN_INBOUND_TRANSFER_H_
