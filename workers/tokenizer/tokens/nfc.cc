#include "workers/tokenizer/tokens/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

namespace baton::tokenizer {
namespace {

constexpr auto kNfc = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
constexpr int kMostDecomposed = 32;  // code points of one; 4 is the longest canonical one

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

std::string NormalizeNfc(absl::string_view text) {
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
        utf8proc_decompose_char(code_point, parts, kMostDecomposed, kNfc, &last_boundclass);
    if (count < 0 || count > kMostDecomposed) return std::string(text);
    decomposed.insert(decomposed.end(), parts, parts + count);
    at += read;
  }
  Order(decomposed);
  const auto length = static_cast<utf8proc_ssize_t>(decomposed.size());
  decomposed.push_back(0);  // utf8proc_reencode ends its bytes with NUL
  const utf8proc_ssize_t encoded = utf8proc_reencode(decomposed.data(), length, kNfc);
  if (encoded < 0) return std::string(text);
  return std::string(reinterpret_cast<const char*>(decomposed.data()),
                     static_cast<size_t>(encoded));
}

}  // namespace baton::tokenizer
