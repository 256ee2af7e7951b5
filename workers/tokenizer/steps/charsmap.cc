#include "workers/tokenizer/steps/charsmap.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/steps/unicode_text.h"

namespace baton::tokenizer {
namespace {

// Clusters of so many bytes are not looked up as a whole, as in the reference.
constexpr size_t kLongCluster = 6;

uint32_t ReadLittleEndian(absl::string_view bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = (value << 8) | static_cast<unsigned char>(bytes[i]);
  return value;
}

// The parts of a unit of darts-clone's double array.
bool HasLeaf(uint32_t unit) { return ((unit >> 8) & 1) == 1; }
uint32_t LabelOf(uint32_t unit) { return unit & ((uint32_t{1} << 31) | 0xFF); }
uint32_t OffsetOf(uint32_t unit) { return (unit >> 10) << ((unit & (uint32_t{1} << 9)) >> 6); }
uint32_t ValueOf(uint32_t unit) { return unit & ((uint32_t{1} << 31) - 1); }

}  // namespace

absl::StatusOr<Charsmap> Charsmap::Create(absl::string_view base64) {
  std::string blob;
  if (!absl::Base64Unescape(base64, &blob) || blob.size() < 4) {
    return absl::InvalidArgumentError("expected base64 of a SentencePiece charsmap");
  }
  const uint32_t trie_bytes = ReadLittleEndian(blob);
  if (trie_bytes % 4 != 0 || trie_bytes == 0 || trie_bytes > blob.size() - 4) {
    return absl::InvalidArgumentError("the charsmap's trie is longer than the charsmap");
  }
  Charsmap out;
  for (size_t at = 4; at < 4 + size_t{trie_bytes}; at += 4) {
    out.units_.push_back(ReadLittleEndian(absl::string_view(blob).substr(at)));
  }
  out.replacements_ = blob.substr(4 + size_t{trie_bytes});
  if (!IsValidUtf8(out.replacements_)) {
    return absl::InvalidArgumentError("the charsmap's replacements are not UTF-8");
  }
  return out;
}

std::optional<absl::string_view> Charsmap::Find(absl::string_view part) const {
  uint32_t node = OffsetOf(units_[0]);
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return std::nullopt;
    node ^= byte;
    if (node >= units_.size() || LabelOf(units_[node]) != byte) return std::nullopt;
    const uint32_t unit = units_[node];
    node ^= OffsetOf(unit);
    if (!HasLeaf(unit)) continue;
    if (node >= units_.size()) return std::nullopt;
    const size_t begin = ValueOf(units_[node]);
    if (begin >= replacements_.size()) return std::nullopt;
    // A place within a character is none: what is normalized stays UTF-8.
    if ((static_cast<unsigned char>(replacements_[begin]) & 0xC0) == 0x80) return std::nullopt;
    const size_t end = replacements_.find('\0', begin);
    return absl::string_view(replacements_).substr(begin, end - begin);
  }
  return std::nullopt;
}

std::string Charsmap::Normalize(absl::string_view text) const {
  std::string out;
  out.reserve(text.size());
  const auto append = [&out](absl::string_view part) { out.append(part.data(), part.size()); };
  while (!text.empty()) {
    absl::string_view cluster = text.substr(0, GraphemeLength(text));
    text.remove_prefix(cluster.size());
    if (cluster.size() < kLongCluster) {
      if (const auto whole = Find(cluster)) {
        append(*whole);
        continue;
      }
    }
    while (!cluster.empty()) {
      const absl::string_view character = cluster.substr(0, ReadUtf8(cluster).length);
      append(Find(character).value_or(character));
      cluster.remove_prefix(character.size());
    }
  }
  return out;
}

size_t Charsmap::longest_replacement() const {
  size_t longest = 0;
  for (size_t begin = 0; begin < replacements_.size();) {
    const size_t end = std::min(replacements_.find('\0', begin), replacements_.size());
    longest = std::max(longest, end - begin);
    begin = end + 1;
  }
  return longest;
}

}  // namespace baton::tokenizer
