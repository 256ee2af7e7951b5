// The pattern of a tokenizer.json's step: {"String": text} or {"Regex": pattern}.
//
// The reference (Hugging Face tokenizers) runs patterns through Oniguruma in its Ruby syntax. Here
// they run through PCRE2, translated where the two differ: \s, \w, \b, \h, \v, POSIX classes, names
// of properties and scripts, `^` and `$` (at each line), (?m), (?i) before alternatives, sets
// within sets and what sets have in common (&&), {,n} and intervals followed by `+` or `?`. What
// has no translation is refused by name, such as "ss" without regard to case, which is "ß" too.
// PCRE2's Unicode tables decide what a letter is, so characters newer than its version may be
// matched differently. Immutable after construction; any thread.
#ifndef BATON_WORKERS_TOKENIZER_STEPS_TEXT_PATTERN_H_
#define BATON_WORKERS_TOKENIZER_STEPS_TEXT_PATTERN_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/common/base/regex.h"

namespace baton::tokenizer {

/// Unicode's White_Space, as the inside of a set of PCRE2.
inline constexpr char kWhiteSpaceCharacters[] =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"
    "\\x{205f}\\x{3000}";
/// The characters of words, as `\w` of Rust's regular expressions has them.
inline constexpr char kWordCharacters[] = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}";

/// A part of a text, in bytes: a match, or the text between two.
struct PatternPiece {
  size_t begin = 0;
  size_t end = 0;
  bool match = false;
};

class TextPattern {
 public:
  /// Reads `step`.pattern. INVALID_ARGUMENT or UNIMPLEMENTED says what is wrong at `where`.
  [[nodiscard]] static absl::StatusOr<TextPattern> FromJson(const nlohmann::json& step,
                                                            const std::string& where);
  /// Of a pattern in PCRE2's own syntax.
  [[nodiscard]] static absl::StatusOr<TextPattern> FromPcre2(absl::string_view pattern);
  /// Of a text, not empty, that matches itself.
  [[nodiscard]] static TextPattern FromText(std::string text);

  /// The whole of `text` (valid UTF-8) in pieces; matches may be empty. RESOURCE_EXHAUSTED when
  /// the pattern needs too much work.
  [[nodiscard]] absl::StatusOr<std::vector<PatternPiece>> Find(absl::string_view text) const;

  /// The text that the pattern matches; empty for a regular expression.
  const std::string& text() const { return text_; }

 private:
  TextPattern(std::optional<Regex> regex, std::string text)
      : regex_(std::move(regex)), text_(std::move(text)) {}

  std::optional<Regex> regex_;
  std::string text_;
};

/// `pattern`, in Oniguruma's syntax, for PCRE2. UNIMPLEMENTED names what has no translation.
[[nodiscard]] absl::StatusOr<std::string> TranslatePattern(absl::string_view pattern);

}  // namespace baton::tokenizer

#endif  // BATON_WORKERS_TOKENIZER_STEPS_TEXT_PATTERN_H_
