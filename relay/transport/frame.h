// The frames of TcpTransport: a header of 40 bytes, little-endian, and a body.
//
//    0  4  magic "BTR1": changes with the format
//    4  1  type: 1 message, 2 put, 3 keepalive
//    5  3  zero
//    8  8  size of the body in bytes
//   16  8  put: region   24  8  put: offset   32  8  put: XXH3-64 of the body   otherwise zero
#ifndef BATON_RELAY_TRANSPORT_FRAME_H_
#define BATON_RELAY_TRANSPORT_FRAME_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace baton::relay {

inline constexpr size_t kFrameHeaderBytes = 40;
using FrameHeader = std::array<uint8_t, kFrameHeaderBytes>;

enum class FrameType : uint8_t { kMessage = 1, kPut = 2, kKeepalive = 3 };

struct FrameLimits {
  uint64_t message_bytes = 64 << 20;  ///< Most of a message.
  uint64_t put_bytes = 64 << 20;      ///< Most of a put.
};

struct Frame {
  FrameType type = FrameType::kKeepalive;
  uint64_t size_bytes = 0;  ///< Of the body.
  uint64_t region = 0, offset = 0, xxh3 = 0;
};

FrameHeader EncodeFrame(const Frame& frame);
/// INVALID_ARGUMENT: not a header of this format, or a body beyond the limits.
absl::StatusOr<Frame> DecodeFrame(const FrameHeader& header, const FrameLimits& limits);

}  // namespace baton::relay

#endif  // BATON_RELAY_TRANSPORT_FRAME_H_
