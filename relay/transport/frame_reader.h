// From bytes to frames: where the next bytes of a connection go, and what has come with them.
#ifndef BATON_RELAY_TRANSPORT_FRAME_READER_H_
#define BATON_RELAY_TRANSPORT_FRAME_READER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "relay/transport/frame.h"
#include "relay/transport/transport.h"

namespace baton::relay {

/// Knows the memory that was offered, so that a put's bytes are received straight into it, and so
/// that whatever comes, no other memory is written. Pure. Not thread-safe.
class FrameReader {
 public:
  /// Its functions may call those of the reader, but neither Space nor Filled.
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void Message(std::string message) = 0;
    virtual void Put(const PutArrival& put) = 0;
  };

  explicit FrameReader(FrameLimits limits) : limits_(limits) {}

  /// As those of Connection.
  void Offer(uint64_t region, absl::Span<uint8_t> memory);
  void Protect(uint64_t region, uint64_t bytes);
  void Withdraw(uint64_t region);

  /// Where the next bytes go; never empty. Valid until the next call of any function.
  absl::Span<uint8_t> Space();
  /// The first `bytes` of Space were written. An error ends the connection (those of
  /// ConnectionHandler::OnClosed); then nothing may be called any more.
  [[nodiscard]] absl::Status Filled(size_t bytes, Sink* sink);

 private:
  struct Region {
    absl::Span<uint8_t> memory;
    uint64_t protected_bytes = 0;
  };

  absl::Status StartBody();
  absl::Status StartPut();
  void FinishBody(Sink* sink);

  const FrameLimits limits_;
  std::map<uint64_t, Region> regions_;
  uint64_t next_region_ = 0;  ///< Above every region that was offered.

  size_t header_bytes_ = 0;  ///< What is there of the header.
  FrameHeader header_{};
  Frame frame_;              ///< Once the header is whole.
  uint64_t body_bytes_ = 0;  ///< What is there of the body.
  std::string message_;
  uint8_t* target_ = nullptr;  ///< Of a put's first byte; null: its bytes are thrown away.
  bool gone_ = false;          ///< The put's region was withdrawn.
  std::vector<uint8_t> thrown_away_;
};

}  // namespace baton::relay

#endif  // BATON_RELAY_TRANSPORT_FRAME_READER_H_
