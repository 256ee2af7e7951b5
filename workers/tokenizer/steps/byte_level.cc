#include "workers/tokenizer/steps/byte_level.h"

#include <array>

#include "sdk/common/base/utf8.h"

namespace baton::tokenizer {
namespace {

constexpr char32_t kAlphabetEnd = 0x100 + 68;

struct Alphabet {
  std::array<char32_t, 256> character;
  std::array<int, kAlphabetEnd> byte;  // -1: none
};

bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

const Alphabet& GetAlphabet() {
  static const Alphabet alphabet = [] {
    Alphabet out;
    out.byte.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const char32_t c = StandsForItself(byte) ? static_cast<char32_t>(byte) : next++;
      out.character[byte] = c;
      out.byte[c] = byte;
    }
    return out;
  }();
  return alphabet;
}

}  // namespace

std::string BytesToTokenText(absl::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    AppendUtf8(GetAlphabet().character[static_cast<unsigned char>(c)], &out);
  }
  return out;
}

std::optional<std::string> TokenTextToBytes(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Utf8Char next = ReadUtf8(text);
    if (next.kind != Utf8Char::Kind::kValid || next.code_point >= kAlphabetEnd) return std::nullopt;
    const int byte = GetAlphabet().byte[next.code_point];
    if (byte < 0) return std::nullopt;
    out.push_back(static_cast<char>(byte));
    text.remove_prefix(next.length);
  }
  return out;
}

}  // namespace baton::tokenizer
