#include "workers/reward/fold_text.h"

#include <utf8proc.h>

#include <cstddef>

#include "sdk/common/base/utf8.h"

namespace baton::reward {
namespace {

// The property White_Space (Unicode's PropList.txt).
bool IsSpace(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Where the last character of `text` begins.
size_t LastCharacter(absl::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
  return begin;
}

// The capital's small letter is the same for all that are one letter: s, S and ſ. The dotted and
// the dotless i of Turkish are letters of their own (CaseFolding.txt, status T).
char32_t Fold(char32_t c) {
  if (c == 0x130 || c == 0x131) return c;
  return static_cast<char32_t>(utf8proc_tolower(utf8proc_toupper(static_cast<int32_t>(c))));
}

}  // namespace

absl::string_view StripSpaces(absl::string_view text) {
  while (!text.empty()) {
    const Utf8Char first = ReadUtf8(text);
    if (!IsSpace(first.code_point)) break;
    text.remove_prefix(first.length);
  }
  while (!text.empty()) {
    const size_t last = LastCharacter(text);
    if (!IsSpace(ReadUtf8(text.substr(last)).code_point)) break;
    text.remove_suffix(text.size() - last);
  }
  return text;
}

std::string FoldCase(absl::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char c = ReadUtf8(text);
    AppendUtf8(Fold(c.code_point), &out);
    text.remove_prefix(c.length);
  }
  return out;
}

}  // namespace baton::reward
