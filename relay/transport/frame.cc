#include "relay/transport/frame.h"

#include "absl/strings/str_cat.h"

namespace baton::relay {
namespace {

constexpr uint64_t kMagic = 0x31525442;  // "BTR1"

void Write(FrameHeader& header, size_t at, size_t bytes, uint64_t value) {
  for (size_t i = 0; i < bytes; ++i) header[at + i] = static_cast<uint8_t>(value >> (8 * i));
}

uint64_t Read(const FrameHeader& header, size_t at, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value |= uint64_t{header[at + i]} << (8 * i);
  return value;
}

uint64_t MostBytes(FrameType type, const FrameLimits& limits) {
  switch (type) {
    case FrameType::kMessage:
      return limits.message_bytes;
    case FrameType::kPut:
      return limits.put_bytes;
    case FrameType::kKeepalive:
      return 0;
  }
  return 0;
}

}  // namespace

FrameHeader EncodeFrame(const Frame& frame) {
  FrameHeader header{};
  Write(header, 0, 4, kMagic);
  Write(header, 4, 1, static_cast<uint64_t>(frame.type));
  Write(header, 8, 8, frame.size_bytes);
  Write(header, 16, 8, frame.region);
  Write(header, 24, 8, frame.offset);
  Write(header, 32, 8, frame.xxh3);
  return header;
}

absl::StatusOr<Frame> DecodeFrame(const FrameHeader& header, const FrameLimits& limits) {
  if (Read(header, 0, 4) != kMagic) {
    return absl::InvalidArgumentError("the peer is no relay, or one of another version of Baton");
  }
  const uint64_t type = Read(header, 4, 4);
  if (type < 1 || type > 3) {
    return absl::InvalidArgumentError(absl::StrCat("frame type: ", type, " is not in [1, 3]"));
  }
  Frame frame;
  frame.type = static_cast<FrameType>(type);
  frame.size_bytes = Read(header, 8, 8);
  frame.region = Read(header, 16, 8);
  frame.offset = Read(header, 24, 8);
  frame.xxh3 = Read(header, 32, 8);
  const uint64_t most = MostBytes(frame.type, limits);
  if (frame.size_bytes > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("frame of type ", type, ": ", frame.size_bytes, " bytes, at most ", most));
  }
  if (frame.type == FrameType::kPut && frame.size_bytes == 0) {
    return absl::InvalidArgumentError("a put without bytes");
  }
  return frame;
}

}  // namespace baton::relay
