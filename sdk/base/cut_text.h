// Texts from elsewhere, in messages that people read.
#ifndef BATON_SDK_BASE_CUT_TEXT_H_
#define BATON_SDK_BASE_CUT_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace baton {

/// What a message quotes of a text at most, in bytes.
inline constexpr size_t kQuotedBytes = 1024;

/// `text`; of a longer one the first kQuotedBytes, less what would be a part of a UTF-8 character,
/// and "…".
inline std::string CutText(absl::string_view text) {
  if (text.size() <= kQuotedBytes) return std::string(text);
  size_t end = kQuotedBytes;
  while (end > kQuotedBytes - 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return absl::StrCat(text.substr(0, end), "…");
}

}  // namespace baton

#endif  // BATON_SDK_BASE_CUT_TEXT_H_
