// UTF-8, where text comes from outside or is cut at token edges.
//
// Everything that goes into a proto `string` must be well-formed UTF-8; a language model's tokens
// are bytes and need not be. "Well-formed" is Unicode's table 3-7: no surrogates, no overlong
// forms, nothing above U+10FFFF. Pure functions; any thread.
#ifndef BATON_SDK_COMMON_BASE_UTF8_H_
#define BATON_SDK_COMMON_BASE_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace baton {

/// The kind of bytes at the start of a text.
struct Utf8Char {
  enum class Kind {
    kValid,       ///< One character of `length` bytes.
    kInvalid,     ///< `length` bytes (a maximal ill-formed subpart) that can never be a character.
    kIncomplete,  ///< The text ends inside a character that has been well-formed so far.
  };
  Kind kind = Kind::kInvalid;
  char32_t code_point = 0;  ///< U+FFFD unless kValid.
  size_t length = 0;        ///< Bytes; 0 only for an empty text.
};
[[nodiscard]] Utf8Char ReadUtf8(absl::string_view text);

[[nodiscard]] bool IsValidUtf8(absl::string_view text);

/// Length in bytes of the longest well-formed prefix.
[[nodiscard]] size_t ValidUtf8Prefix(absl::string_view text);

/// `text` with each maximal ill-formed subpart replaced by U+FFFD (as Python's
/// errors="replace" and Rust's from_utf8_lossy do). Well-formed text comes back unchanged.
[[nodiscard]] std::string ReplaceInvalidUtf8(absl::string_view text);

/// Appends one character; `code_point` must be a Unicode scalar value.
void AppendUtf8(char32_t code_point, std::string* out);

}  // namespace baton

#endif  // BATON_SDK_COMMON_BASE_UTF8_H_
