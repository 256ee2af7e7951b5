#include "relay/delta/delta.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "relay/weights/safetensors_reader.h"
#include "sdk/common/base/status_macros.h"

namespace baton::relay {
namespace {

constexpr size_t kBlockBytes = 1 << 20;  // whole elements of every type
constexpr size_t kSizeBytes = sizeof(uint32_t);
// Nearly all bytes are 0: a higher level takes longer and saves little.
constexpr int kZstdLevel = 1;

/// Consecutive elements of one size.
struct Block {
  size_t offset = 0;  ///< In the file.
  size_t size_bytes = 0;
  size_t element_bytes = 1;
};

std::vector<TensorEntry> ByPlace(const SafetensorsView& view) {
  std::vector<TensorEntry> entries = view.entries();
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return entries;
}

std::vector<Block> BlocksOf(const SafetensorsView& view) {
  std::vector<Block> blocks;
  for (const TensorEntry& entry : ByPlace(view)) {
    const auto element = static_cast<size_t>(SizeBytes(entry.dtype));
    auto offset = static_cast<size_t>(view.data_offset() + entry.begin);
    auto left = static_cast<size_t>(entry.size_bytes());
    while (left > 0) {
      const bool joins = !blocks.empty() && blocks.back().element_bytes == element &&
                         blocks.back().size_bytes < kBlockBytes;  // tensors lie side by side
      if (!joins) blocks.push_back({offset, 0, element});
      const size_t part = std::min(left, kBlockBytes - blocks.back().size_bytes);
      blocks.back().size_bytes += part;
      offset += part;
      left -= part;
    }
  }
  return blocks;
}

absl::Status CheckSameTensors(const SafetensorsView& base, const SafetensorsView& next) {
  const auto same = [](const TensorEntry& a, const TensorEntry& b) {
    return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.begin == b.begin &&
           a.end == b.end;
  };
  if (std::equal(base.entries().begin(), base.entries().end(), next.entries().begin(),
                 next.entries().end(), same)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("the two versions have different tensors");
}

template <typename Element>
void ShuffledXor(const uint8_t* base, const uint8_t* next, size_t count, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) {
    Element a, b;
    std::memcpy(&a, base + i * sizeof(Element), sizeof(Element));
    std::memcpy(&b, next + i * sizeof(Element), sizeof(Element));
    const Element differs = static_cast<Element>(a ^ b);
    for (size_t byte = 0; byte < sizeof(Element); ++byte) {
      out[byte * count + i] = static_cast<uint8_t>(differs >> (8 * byte));
    }
  }
}

template <typename Element>
void UnshuffledXor(const uint8_t* base, const uint8_t* shuffled, size_t count, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) {
    Element value;
    std::memcpy(&value, base + i * sizeof(Element), sizeof(Element));
    for (size_t byte = 0; byte < sizeof(Element); ++byte) {
      value ^= static_cast<Element>(static_cast<Element>(shuffled[byte * count + i]) << (8 * byte));
    }
    std::memcpy(out + i * sizeof(Element), &value, sizeof(Element));
  }
}

/// One of the two above, for the block's elements.
template <typename Function>
void ForElement(size_t element_bytes, const Function& function) {
  switch (element_bytes) {
    case 1:
      return function(uint8_t{});
    case 2:
      return function(uint16_t{});
    case 4:
      return function(uint32_t{});
    default:
      return function(uint64_t{});
  }
}

absl::Status NoDelta(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("not a delta of these tensors: ", what));
}

}  // namespace

absl::StatusOr<std::vector<uint8_t>> EncodeDelta(absl::Span<const uint8_t> base,
                                                 absl::Span<const uint8_t> next,
                                                 uint64_t most_bytes) {
  BATON_ASSIGN_OR_RETURN(const SafetensorsView old_view, SafetensorsView::Parse(base));
  BATON_ASSIGN_OR_RETURN(const SafetensorsView view, SafetensorsView::Parse(next));
  BATON_RETURN_IF_ERROR(CheckSameTensors(old_view, view));
  const auto shift = static_cast<size_t>(old_view.data_offset());
  const auto data_offset = static_cast<size_t>(view.data_offset());
  const std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> zstd(ZSTD_createCCtx(), ZSTD_freeCCtx);
  std::vector<uint8_t> shuffled(kBlockBytes), frame(ZSTD_compressBound(kBlockBytes)), delta;
  for (const Block& block : BlocksOf(view)) {
    const uint8_t* before = base.data() + block.offset - data_offset + shift;
    const uint8_t* now = next.data() + block.offset;
    size_t size = 0;
    if (std::memcmp(before, now, block.size_bytes) != 0) {
      ForElement(block.element_bytes, [&](auto element) {
        ShuffledXor<decltype(element)>(before, now, block.size_bytes / sizeof(element),
                                       shuffled.data());
      });
      size = ZSTD_compressCCtx(zstd.get(), frame.data(), frame.size(), shuffled.data(),
                               block.size_bytes, kZstdLevel);
      if (ZSTD_isError(size) != 0) {
        return absl::InternalError(absl::StrCat("zstd: ", ZSTD_getErrorName(size)));
      }
    }
    if (delta.size() + kSizeBytes + size > most_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the difference has more than ", most_bytes, " bytes"));
    }
    const auto written = static_cast<uint32_t>(size);
    const auto* header = reinterpret_cast<const uint8_t*>(&written);
    delta.insert(delta.end(), header, header + kSizeBytes);
    delta.insert(delta.end(), frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(size));
  }
  return delta;
}

absl::Status ApplyDelta(absl::Span<const uint8_t> base, absl::Span<const uint8_t> delta,
                        absl::Span<uint8_t> out) {
  BATON_ASSIGN_OR_RETURN(const SafetensorsView old_view, SafetensorsView::Parse(base));
  BATON_ASSIGN_OR_RETURN(const SafetensorsView view, SafetensorsView::Parse(out));
  BATON_RETURN_IF_ERROR(CheckSameTensors(old_view, view));
  const auto shift = static_cast<size_t>(old_view.data_offset());
  const auto data_offset = static_cast<size_t>(view.data_offset());
  const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> zstd(ZSTD_createDCtx(), ZSTD_freeDCtx);
  std::vector<uint8_t> shuffled(kBlockBytes);
  for (const Block& block : BlocksOf(view)) {
    if (delta.size() < kSizeBytes) return NoDelta("it ends early");
    uint32_t size = 0;
    std::memcpy(&size, delta.data(), kSizeBytes);
    delta.remove_prefix(kSizeBytes);
    if (size > delta.size()) return NoDelta("it ends within a block");
    const uint8_t* before = base.data() + block.offset - data_offset + shift;
    uint8_t* now = out.data() + block.offset;
    if (size == 0) {
      std::memcpy(now, before, block.size_bytes);
      continue;
    }
    const size_t found =
        ZSTD_decompressDCtx(zstd.get(), shuffled.data(), block.size_bytes, delta.data(), size);
    if (ZSTD_isError(found) != 0) return NoDelta(ZSTD_getErrorName(found));
    if (found != block.size_bytes) return NoDelta("a block has another size");
    ForElement(block.element_bytes, [&](auto element) {
      UnshuffledXor<decltype(element)>(before, shuffled.data(), block.size_bytes / sizeof(element),
                                       now);
    });
    delta.remove_prefix(size);
  }
  return delta.empty() ? absl::OkStatus() : NoDelta("bytes follow the last block");
}

}  // namespace baton::relay
