#include "workers/tokenizer/steps/unicode_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "sdk/common/base/utf8.h"

namespace baton::tokenizer {
namespace {

constexpr int kMostDecomposed = 32;  // code points of one; 18 is the longest decomposition

utf8proc_option_t OptionsOf(NormalForm form) {
  int options = UTF8PROC_STABLE;
  const bool composes = form == NormalForm::kC || form == NormalForm::kKc;
  options |= composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::kKc || form == NormalForm::kKd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

utf8proc_category_t CategoryOf(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

int ClassOf(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Canonical ordering (UAX #15, D109): each run of marks by class. utf8proc's own takes a time that
// grows with the square of a run's length.
void Order(std::vector<utf8proc_int32_t>& text) {
  for (auto begin = text.begin(); begin != text.end();) {
    if (ClassOf(*begin) == 0) {
      ++begin;
      continue;
    }
    const auto end = std::find_if(begin, text.end(), [](auto c) { return ClassOf(c) == 0; });
    std::stable_sort(begin, end, [](auto a, auto b) { return ClassOf(a) < ClassOf(b); });
    begin = end;
  }
}

}  // namespace

std::string NormalizeUnicode(absl::string_view text, NormalForm form) {
  const utf8proc_option_t options = OptionsOf(form);
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  std::vector<utf8proc_int32_t> decomposed;
  decomposed.reserve(text.size());
  for (utf8proc_ssize_t at = 0; at < size;) {
    utf8proc_int32_t code_point = -1, parts[kMostDecomposed];
    const utf8proc_ssize_t read = utf8proc_iterate(bytes + at, size - at, &code_point);
    if (read <= 0) return std::string(text);  // not UTF-8
    int last_boundclass = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(code_point, parts, kMostDecomposed, options, &last_boundclass);
    if (count < 0 || count > kMostDecomposed) return std::string(text);
    decomposed.insert(decomposed.end(), parts, parts + count);
    at += read;
  }
  Order(decomposed);
  const auto length = static_cast<utf8proc_ssize_t>(decomposed.size());
  decomposed.push_back(0);  // utf8proc_reencode ends its bytes with NUL
  const utf8proc_ssize_t encoded = utf8proc_reencode(decomposed.data(), length, options);
  if (encoded < 0) return std::string(text);
  return std::string(reinterpret_cast<const char*>(decomposed.data()),
                     static_cast<size_t>(encoded));
}

std::string ChangeEachCharacter(absl::string_view text,
                                absl::FunctionRef<void(char32_t, std::string*)> change) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char c = ReadUtf8(text);
    if (c.kind == Utf8Char::Kind::kValid) {
      change(c.code_point, &out);
    } else {
      out.append(text.data(), c.length);
    }
    text.remove_prefix(c.length);
  }
  return out;
}

std::string LowerCase(absl::string_view text) {
  return ChangeEachCharacter(text, [](char32_t c, std::string* out) {
    // The one character whose lower case is two (SpecialCasing.txt, its unconditional part).
    if (c == 0x130) {
      out->append("i\u0307");
    } else {
      AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), out);
    }
  });
}

bool FoldsToSeveral(char32_t c) {
  utf8proc_int32_t parts[kMostDecomposed];
  int last_boundclass = 0;
  return utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, kMostDecomposed,
                                 UTF8PROC_CASEFOLD, &last_boundclass) > 1;
}

bool IsWhiteSpace(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool IsMark(char32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

bool IsNonspacingMark(char32_t c) { return CategoryOf(c) == UTF8PROC_CATEGORY_MN; }

bool IsControl(char32_t c) {
  const utf8proc_category_t category = CategoryOf(c);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

size_t GraphemeLength(absl::string_view text) {
  Utf8Char c = ReadUtf8(text);
  size_t length = c.length;
  utf8proc_int32_t state = 0;
  while (c.kind == Utf8Char::Kind::kValid && length < text.size()) {
    const Utf8Char next = ReadUtf8(text.substr(length));
    if (next.kind != Utf8Char::Kind::kValid ||
        utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(c.code_point),
                                         static_cast<utf8proc_int32_t>(next.code_point), &state)) {
      break;
    }
    length += next.length;
    c = next;
  }
  return length;
}

}  // namespace baton::tokenizer
