// Any bytes from a peer, in any pieces: frames or an error, and no byte is written but into memory
// that was offered and is not protected.
//
// The first byte says how large the pieces are; the others come from the peer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "relay/transport/frame_reader.h"

namespace {

using baton::relay::FrameReader;
using baton::relay::PutArrival;

constexpr uint8_t kUntouched = 0xa5;
constexpr size_t kGuard = 64, kRegion = 256, kProtected = 16;

/// Two regions in one piece of memory, with guards around each: 1 from the beginning on, 2 until
/// the first message comes.
struct Offered : FrameReader::Sink {
  Offered() : memory(3 * kGuard + 2 * kRegion, kUntouched), reader({4096, 4096}) {
    reader.Offer(1, absl::MakeSpan(memory).subspan(kGuard, kRegion));
    reader.Protect(1, kProtected);
    reader.Offer(2, absl::MakeSpan(memory).subspan(2 * kGuard + kRegion, kRegion));
  }
  void Message(std::string message) override {
    if (message.size() > 4096) __builtin_trap();
    reader.Withdraw(2);
  }
  void Put(const PutArrival& put) override {
    if (put.offset > kRegion || put.size_bytes > kRegion - put.offset) __builtin_trap();
  }
  void CheckGuards() const {
    const auto untouched = [&](size_t begin, size_t end) {
      return std::all_of(memory.begin() + static_cast<int64_t>(begin),
                         memory.begin() + static_cast<int64_t>(end),
                         [](uint8_t byte) { return byte == kUntouched; });
    };
    const size_t second = 2 * kGuard + kRegion;
    if (!untouched(0, kGuard + kProtected) || !untouched(kGuard + kRegion, second) ||
        !untouched(second + kRegion, memory.size())) {
      __builtin_trap();
    }
  }

  std::vector<uint8_t> memory;
  FrameReader reader;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t piece = 1 + data[0];
  Offered offered;
  for (size_t at = 1; at < size;) {
    const auto space = offered.reader.Space();
    if (space.empty()) __builtin_trap();
    const size_t some = std::min({space.size(), piece, size - at});
    std::memcpy(space.data(), data + at, some);
    at += some;
    if (!offered.reader.Filled(some, &offered).ok()) break;
  }
  offered.CheckGuards();
  return 0;
}
