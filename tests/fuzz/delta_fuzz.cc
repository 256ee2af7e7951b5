// Any bytes as a delta: the version's data or an error, and no byte outside of them is written. And
// any bytes as a version: its delta makes it again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "relay/delta/delta.h"
#include "relay/weights/safetensors_writer.h"

namespace {

using Bytes = std::vector<uint8_t>;
using baton::relay::DType;

constexpr uint8_t kUntouched = 0xa5;
constexpr size_t kGuard = 64;

/// Tensors of elements of 4, 2 and 1 bytes: 3 blocks. The data are a pattern.
const Bytes& Base() {
  static const Bytes* const kBase = [] {
    const auto layout = baton::relay::SafetensorsLayout::Create(
        {{"f", DType::kF32, {4}}, {"b", DType::kBF16, {3}}, {"u", DType::kU8, {5}}});
    auto* file = new Bytes(static_cast<size_t>(layout->file_size()));
    layout->WriteHeader(absl::MakeSpan(*file));
    for (size_t i = layout->header().size(); i < file->size(); ++i) {
      (*file)[i] = static_cast<uint8_t>(7 * i);
    }
    return file;
  }();
  return *kBase;
}

/// The version between two guards, with the header of the base.
Bytes Guarded() {
  Bytes memory(Base().size() + 2 * kGuard, kUntouched);
  std::copy(Base().begin(), Base().end(), memory.begin() + kGuard);
  return memory;
}

absl::Status Apply(absl::Span<const uint8_t> delta, Bytes* memory) {
  const absl::Status status = baton::relay::ApplyDelta(
      Base(), delta, absl::MakeSpan(*memory).subspan(kGuard, Base().size()));
  const auto untouched = [](uint8_t byte) { return byte == kUntouched; };
  if (!std::all_of(memory->begin(), memory->begin() + kGuard, untouched) ||
      !std::all_of(memory->end() - kGuard, memory->end(), untouched)) {
    __builtin_trap();
  }
  return status;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes memory = Guarded();
  (void)Apply({data, size}, &memory);

  Bytes next = Base();
  const size_t changed = std::min<size_t>(size, 27);  // the bytes of the tensors
  std::copy(data, data + changed, next.end() - static_cast<std::ptrdiff_t>(changed));
  const auto delta = baton::relay::EncodeDelta(Base(), next, 1 << 20);
  if (!delta.ok() || !Apply(*delta, &memory).ok()) __builtin_trap();
  if (!std::equal(next.begin(), next.end(), memory.begin() + kGuard)) __builtin_trap();
  return 0;
}
