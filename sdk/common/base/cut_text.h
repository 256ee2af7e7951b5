// Texts from elsewhere, cut to their bounds (sdk/common/contracts/text_bounds.h).
#ifndef BATON_SDK_COMMON_BASE_CUT_TEXT_H_
#define BATON_SDK_COMMON_BASE_CUT_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace baton {

/// The part of a text that a message quotes.
inline constexpr size_t kQuotedBytes = 1024;

/// `text`; if it is longer than `most` bytes, its beginning, cut at the edge of a UTF-8 character,
/// and "… (N bytes)", its length. The answer has `most` bytes at most, so cutting it again changes
/// nothing. `most` is at least 64.
inline std::string CutText(absl::string_view text, size_t most = kQuotedBytes) {
  if (text.size() <= most) return std::string(text);
  const std::string length = absl::StrCat("… (", text.size(), " bytes)");
  size_t end = most - length.size();
  const size_t least = end - 3;  // the other bytes of a character
  while (end > least && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return absl::StrCat(text.substr(0, end), length);
}

}  // namespace baton

#endif  // BATON_SDK_COMMON_BASE_CUT_TEXT_H_
