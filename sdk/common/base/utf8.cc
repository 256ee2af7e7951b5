#include "sdk/common/base/utf8.h"

namespace baton {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

// The bytes that may follow a lead byte: the number of continuation bytes and the range of the
// first one (the later ones are always 80..BF).
struct Lead {
  int continuations;
  unsigned char low, high;
};

Lead ClassifyLead(unsigned char byte) {
  if (byte < 0x80) return {0, 0, 0};
  if (byte < 0xC2) return {-1, 0, 0};
  if (byte < 0xE0) return {1, 0x80, 0xBF};
  if (byte < 0xF0)
    return {2, byte == 0xE0 ? (unsigned char)0xA0 : (unsigned char)0x80,
            byte == 0xED ? (unsigned char)0x9F : (unsigned char)0xBF};
  if (byte < 0xF5)
    return {3, byte == 0xF0 ? (unsigned char)0x90 : (unsigned char)0x80,
            byte == 0xF4 ? (unsigned char)0x8F : (unsigned char)0xBF};
  return {-1, 0, 0};
}

}  // namespace

Utf8Char ReadUtf8(absl::string_view text) {
  if (text.empty()) return {Utf8Char::Kind::kIncomplete, kReplacement, 0};
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const Lead lead = ClassifyLead(byte(0));
  if (lead.continuations == 0) return {Utf8Char::Kind::kValid, byte(0), 1};
  if (lead.continuations < 0) return {Utf8Char::Kind::kInvalid, kReplacement, 1};
  const size_t length = static_cast<size_t>(lead.continuations) + 1;
  char32_t code_point = byte(0) & (0x7Fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Utf8Char::Kind::kIncomplete, kReplacement, i};
    const unsigned char low = i == 1 ? lead.low : 0x80;
    const unsigned char high = i == 1 ? lead.high : 0xBF;
    if (byte(i) < low || byte(i) > high) return {Utf8Char::Kind::kInvalid, kReplacement, i};
    code_point = (code_point << 6) | (byte(i) & 0x3Fu);
  }
  return {Utf8Char::Kind::kValid, code_point, length};
}

size_t ValidUtf8Prefix(absl::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Utf8Char next = ReadUtf8(text.substr(at));
    if (next.kind != Utf8Char::Kind::kValid) break;
    at += next.length;
  }
  return at;
}

bool IsValidUtf8(absl::string_view text) { return ValidUtf8Prefix(text) == text.size(); }

std::string ReplaceInvalidUtf8(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t valid = ValidUtf8Prefix(text);
    out.append(text.data(), valid);
    text.remove_prefix(valid);
    if (text.empty()) break;
    AppendUtf8(kReplacement, &out);
    text.remove_prefix(ReadUtf8(text).length);
  }
  return out;
}

void AppendUtf8(char32_t code_point, std::string* out) {
  const auto put = [&](char32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

}  // namespace baton
