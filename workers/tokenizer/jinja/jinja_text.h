// Python's operations on texts whose bytes know their origin. Internal to the Jinja renderer.
//
// Positions are bytes. A character is a code point of UTF-8; a byte that is no UTF-8 is one.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_TEXT_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/rendered_text.h"

namespace baton::tokenizer::jinja {

/// For a walk over the characters of a text, which must stay. Spends for all of it at once.
class Characters {
 public:
  explicit Characters(absl::string_view text);

  class Iterator {
   public:
    Iterator(absl::string_view text, size_t at);
    TextRange operator*() const { return {at_, at_ + length_}; }
    Iterator& operator++();
    bool operator!=(const Iterator& other) const { return at_ != other.at_; }

   private:
    absl::string_view text_;
    size_t at_;
    size_t length_;
  };
  Iterator begin() const { return {text_, 0}; }
  Iterator end() const { return {text_, text_.size()}; }

 private:
  const absl::string_view text_;
};

int64_t CountCharacters(absl::string_view text);
/// The character at `index` (from 0); nullopt beyond the end.
std::optional<TextRange> CharacterNumber(absl::string_view text, int64_t index);

/// Characters [begin, end), counted from 0.
RenderedText SliceCharacters(const RenderedText& text, int64_t begin, int64_t end);

/// The first occurrence of `part` in `text`, at `from` or later; npos: none. In linear time.
size_t FindPart(absl::string_view text, absl::string_view part, size_t from);
/// The last occurrence of `part` in `text`; npos: none. In linear time.
size_t LastPart(absl::string_view text, absl::string_view part);

/// Texts that count for the rendering that makes them.
using Texts = std::vector<RenderedText, Counted<RenderedText>>;

enum class Side { kBoth, kLeft, kRight };
/// str.strip, lstrip, rstrip: of white space, or of the characters in `characters`.
RenderedText Strip(const RenderedText& text, Side side,
                   std::optional<absl::string_view> characters = std::nullopt);
/// str.split at `separator` (must not be empty), at most `limit` times; below 0: no limit.
/// `from_right`: rsplit.
Texts Split(const RenderedText& text, absl::string_view separator, int64_t limit,
            bool from_right = false);
/// str.split without a separator: at white space, without empty parts.
Texts SplitWords(const RenderedText& text, int64_t limit);
/// The same from the right.
Texts SplitWordsFromRight(const RenderedText& text, int64_t limit);
/// str.splitlines.
Texts SplitLines(const RenderedText& text, bool keep_ends = false);
/// str.replace, at most `limit` times; below 0: no limit.
RenderedText Replace(const RenderedText& text, absl::string_view from, const RenderedText& to,
                     int64_t limit);

/// Python's repr of a string.
void AddQuoted(const RenderedText& text, RenderedText* out);
/// What Python's ascii() makes of a repr: characters beyond ASCII by their numbers.
RenderedText EscapedToAscii(const RenderedText& text);
/// json.dumps of a string.
void AddJsonString(const RenderedText& text, bool ensure_ascii, RenderedText* out);

/// Python's str.isspace of the code point.
bool IsSpace(char32_t c);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_TEXT_H_
