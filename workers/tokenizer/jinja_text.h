// Python's operations on texts that know their origin. Internal to the Jinja renderer.
//
// Positions are bytes. A character is a code point of UTF-8; a byte that is no UTF-8 is one.
#ifndef BATON_WORKERS_ENGINE_JINJA_TEXT_H_
#define BATON_WORKERS_ENGINE_JINJA_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "workers/tokenizer/rendered_text.h"

namespace baton::tokenizer::jinja {

std::vector<TextRange> Characters(absl::string_view text);

enum class Side { kBoth, kLeft, kRight };
/// str.strip, lstrip, rstrip: of white space, or of the characters in `characters`.
RenderedText Strip(const RenderedText& text, Side side,
                   std::optional<absl::string_view> characters = std::nullopt);
/// str.split at `separator` (must not be empty), at most `limit` times; below 0: no limit.
/// `from_right`: rsplit.
std::vector<RenderedText> Split(const RenderedText& text, absl::string_view separator,
                                int64_t limit, bool from_right = false);
/// str.split without a separator: at white space, without empty parts.
std::vector<RenderedText> SplitWords(const RenderedText& text, int64_t limit);
/// str.splitlines.
std::vector<RenderedText> SplitLines(const RenderedText& text);
/// str.replace, at most `limit` times; below 0: no limit.
RenderedText Replace(const RenderedText& text, absl::string_view from, const RenderedText& to,
                     int64_t limit);

enum class Case { kUpper, kLower, kCapitalize, kTitle };
/// ASCII letters alone; other characters stay as they are.
RenderedText ChangeCase(const RenderedText& text, Case how);

/// Python's repr of a string.
void AddQuoted(const RenderedText& text, RenderedText* out);
/// json.dumps of a string.
void AddJsonString(const RenderedText& text, bool ensure_ascii, RenderedText* out);

/// Python's repr of a float: the shortest digits that read back to it.
std::string FloatRepr(double value);

/// Python's str.isspace of the code point.
bool IsSpace(char32_t c);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_ENGINE_JINJA_TEXT_H_
