#include "workers/tokenizer/jinja/jinja_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_case.h"

namespace baton::tokenizer::jinja {
namespace {

/// The character at `at`: its code point (U+FFFD of a byte that is no UTF-8) and its bytes.
std::pair<char32_t, size_t> CharacterAt(absl::string_view text, size_t at) {
  const Utf8Char character = ReadUtf8(text.substr(at));
  if (character.kind != Utf8Char::Kind::kValid) return {0xFFFD, 1};
  return {character.code_point, character.length};
}

/// The length of the character that ends at `end`.
size_t CharacterBefore(absl::string_view text, size_t end) {
  for (size_t length = 2; length <= std::min<size_t>(4, end); ++length) {
    if (CharacterAt(text.substr(0, end), end - length).second == length) return length;
  }
  return 1;
}

/// The distance from `begin` to the first occurrence of the part in [begin, end), plus `before`;
/// npos: none. Forwards or backwards, as the iterators are.
template <class Iterator>
size_t Search(Iterator begin, Iterator end, Iterator part_begin, Iterator part_end, size_t before) {
  const auto length = static_cast<size_t>(part_end - part_begin);
  if (length == 0) return before;
  // Knuth, Morris, Pratt: `borders[i]` is the length of the longest proper border of the first i +
  // 1 bytes.
  std::vector<uint32_t, Counted<uint32_t>> borders(length, 0);
  Budget::SpendWalk(length);
  for (size_t i = 1, border = 0; i < length; ++i) {
    while (border > 0 && part_begin[i] != part_begin[border]) border = borders[border - 1];
    if (part_begin[i] == part_begin[border]) ++border;
    borders[i] = static_cast<uint32_t>(border);
  }
  size_t matched = 0;
  for (Iterator at = begin; at != end; ++at) {
    while (matched > 0 && *at != part_begin[matched]) matched = borders[matched - 1];
    if (*at == part_begin[matched]) ++matched;
    if (matched < length) continue;
    const auto scanned = static_cast<size_t>(at - begin) + 1;
    Budget::SpendWalk(scanned / 2);
    return before + scanned - length;
  }
  Budget::SpendWalk(static_cast<uint64_t>(end - begin) / 2);
  return std::string::npos;
}

bool IsIn(absl::string_view character, absl::string_view set) {
  for (const TextRange& range : Characters(set)) {
    if (set.substr(range.begin, range.end - range.begin) == character) return true;
  }
  return false;
}

}  // namespace

bool IsSpace(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

Characters::Characters(absl::string_view text) : text_(text) { Budget::SpendWalk(text.size()); }

Characters::Iterator::Iterator(absl::string_view text, size_t at)
    : text_(text), at_(at), length_(at < text.size() ? CharacterAt(text, at).second : 0) {}

Characters::Iterator& Characters::Iterator::operator++() {
  at_ += length_;
  length_ = at_ < text_.size() ? CharacterAt(text_, at_).second : 0;
  return *this;
}

int64_t CountCharacters(absl::string_view text) {
  int64_t count = 0;
  for ([[maybe_unused]] const TextRange& range : Characters(text)) ++count;
  return count;
}

std::optional<TextRange> CharacterNumber(absl::string_view text, int64_t index) {
  size_t at = 0;
  for (; at < text.size(); at += CharacterAt(text, at).second) {
    Budget::SpendWalk(1);
    if (index-- == 0) return TextRange{at, at + CharacterAt(text, at).second};
  }
  return std::nullopt;
}

RenderedText SliceCharacters(const RenderedText& text, int64_t begin, int64_t end) {
  if (begin >= end) return {};
  const absl::string_view bytes = text.text();
  const auto from = CharacterNumber(bytes, begin);
  if (!from.has_value()) return {};
  const auto rest = CharacterNumber(bytes.substr(from->begin), end - begin);
  return text.Slice(from->begin, rest.has_value() ? from->begin + rest->begin : bytes.size());
}

size_t FindPart(absl::string_view text, absl::string_view part, size_t from) {
  if (from > text.size()) return std::string::npos;
  return Search(text.begin() + from, text.end(), part.begin(), part.end(), from);
}

size_t LastPart(absl::string_view text, absl::string_view part) {
  const size_t at = Search(text.rbegin(), text.rend(), part.rbegin(), part.rend(), 0);
  return at == std::string::npos ? at : text.size() - at - part.size();
}

RenderedText Strip(const RenderedText& text, Side side,
                   std::optional<absl::string_view> characters) {
  const absl::string_view bytes = text.text();
  const auto goes = [&](size_t begin, size_t length) {
    Budget::SpendWalk(2 * length);
    if (!characters.has_value()) return IsSpace(CharacterAt(bytes, begin).first);
    return IsIn(bytes.substr(begin, length), *characters);
  };
  size_t first = 0, last = bytes.size();
  if (side != Side::kRight) {
    for (size_t length = 0; first < last; first += length) {
      length = CharacterAt(bytes, first).second;
      if (!goes(first, length)) break;
    }
  }
  if (side != Side::kLeft) {
    for (size_t length = 0; last > first; last -= length) {
      length = CharacterBefore(bytes, last);
      if (!goes(last - length, length)) break;
    }
  }
  return text.Slice(first, last);
}

Texts Split(const RenderedText& text, absl::string_view separator, int64_t limit, bool from_right) {
  const std::string& bytes = text.text();
  std::vector<size_t, Counted<size_t>> cuts;
  const auto wanted = [&] { return limit < 0 || static_cast<int64_t>(cuts.size()) < limit; };
  if (from_right) {
    for (size_t end = bytes.size(); wanted();) {
      const size_t at = LastPart(absl::string_view(bytes).substr(0, end), separator);
      if (at == std::string::npos) break;
      cuts.push_back(at);
      end = at;
    }
    std::reverse(cuts.begin(), cuts.end());
  } else {
    for (size_t from = 0; wanted();) {
      const size_t at = FindPart(bytes, separator, from);
      if (at == std::string::npos) break;
      cuts.push_back(at);
      from = at + separator.size();
    }
  }
  Texts parts;
  parts.reserve(cuts.size() + 1);
  size_t from = 0;
  for (const size_t at : cuts) {
    parts.push_back(text.Slice(from, at));
    from = at + separator.size();
  }
  parts.push_back(text.Slice(from, bytes.size()));
  return parts;
}

Texts SplitWords(const RenderedText& text, int64_t limit) {
  const absl::string_view bytes = text.text();
  Texts parts;
  Budget::SpendWalk(bytes.size());
  // The first character at `at` or later that is white space, or is none; or the end.
  const auto next = [&](size_t at, bool space) {
    while (at < bytes.size()) {
      const auto [code_point, length] = CharacterAt(bytes, at);
      if (IsSpace(code_point) == space) break;
      at += length;
    }
    return at;
  };
  for (size_t at = next(0, false); at < bytes.size();) {
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.push_back(text.Slice(at, bytes.size()));
      break;
    }
    const size_t end = next(at, true);
    parts.push_back(text.Slice(at, end));
    at = next(end, false);
  }
  return parts;
}

Texts SplitWordsFromRight(const RenderedText& text, int64_t limit) {
  const absl::string_view bytes = text.text();
  Texts parts;
  Budget::SpendWalk(2 * bytes.size());
  // Where the run of white space, or of other characters, that ends at `end` begins.
  const auto before = [&](size_t end, bool space) {
    while (end > 0) {
      const size_t length = CharacterBefore(bytes, end);
      if (IsSpace(CharacterAt(bytes, end - length).first) != space) break;
      end -= length;
    }
    return end;
  };
  for (size_t end = before(bytes.size(), true); end > 0;) {
    const bool last = limit >= 0 && static_cast<int64_t>(parts.size()) == limit;
    const size_t begin = last ? 0 : before(end, false);
    parts.push_back(text.Slice(begin, end));
    end = before(begin, true);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

/// Python's ends of lines, "\r\n" aside.
bool EndsLine(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

Texts SplitLines(const RenderedText& text, bool keep_ends) {
  const absl::string_view bytes = text.text();
  Texts lines;
  size_t from = 0;
  for (const TextRange& range : Characters(bytes)) {
    const char32_t c = CharacterAt(bytes, range.begin).first;
    if (range.begin < from || !EndsLine(c)) continue;
    const size_t end = c == '\r' && range.end < bytes.size() && bytes[range.end] == '\n'
                           ? range.end + 1
                           : range.end;
    lines.push_back(text.Slice(from, keep_ends ? end : range.begin));
    from = end;
  }
  if (from < bytes.size()) lines.push_back(text.Slice(from, bytes.size()));
  return lines;
}

RenderedText Replace(const RenderedText& text, absl::string_view from, const RenderedText& to,
                     int64_t limit) {
  RenderedText out;
  if (from.empty()) {  // Before every character and at the end.
    int64_t done = 0;
    const auto insert = [&] {
      if (limit < 0 || done++ < limit) out.Add(to);
    };
    for (const TextRange& range : Characters(text.text())) {
      insert();
      out.Add(text.Slice(range.begin, range.end));
    }
    insert();
    return out;
  }
  const Texts parts = Split(text, from, limit);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out.Add(to);
    out.Add(parts[i]);
  }
  return out;
}

namespace {

/// A character by its number, as Python writes it in a string.
std::string Escaped(char32_t c) {
  const auto code = static_cast<unsigned>(c);
  return c < 0x100     ? absl::StrFormat("\\x%02x", code)
         : c < 0x10000 ? absl::StrFormat("\\u%04x", code)
                       : absl::StrFormat("\\U%08x", code);
}

}  // namespace

RenderedText EscapedToAscii(const RenderedText& text) {
  const absl::string_view bytes = text.text();
  RenderedText out;
  size_t done = 0;
  for (const TextRange& range : Characters(bytes)) {
    const char32_t c = CharacterAt(bytes, range.begin).first;
    if (c < 0x80) continue;
    out.Add(text.Slice(done, range.begin));
    out.AddContent(Escaped(c));
    done = range.end;
  }
  out.Add(text.Slice(done, bytes.size()));
  return out;
}

void AddQuoted(const RenderedText& text, RenderedText* out) {
  const absl::string_view bytes = text.text();
  const bool has_single = bytes.find('\'') != absl::string_view::npos;
  const bool has_double = bytes.find('"') != absl::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out->AddTemplate(std::string(1, quote));
  size_t done = 0;
  for (const TextRange& range : Characters(bytes)) {
    const char32_t c = CharacterAt(bytes, range.begin).first;
    std::string escaped;
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      escaped = {'\\', static_cast<char>(c)};
    } else if (c == '\n' || c == '\r' || c == '\t') {
      escaped = c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (IsPrintable(c)) {
      continue;
    } else {
      escaped = Escaped(c);
    }
    out->Add(text.Slice(done, range.begin));
    out->AddContent(escaped);
    done = range.end;
  }
  out->Add(text.Slice(done, bytes.size()));
  out->AddTemplate(std::string(1, quote));
}

void AddJsonString(const RenderedText& text, bool ensure_ascii, RenderedText* out) {
  const absl::string_view bytes = text.text();
  out->AddTemplate("\"");
  size_t done = 0;
  for (const TextRange& range : Characters(bytes)) {
    const char32_t c = CharacterAt(bytes, range.begin).first;
    std::string escaped;
    switch (c) {
      case '"':
        escaped = "\\\"";
        break;
      case '\\':
        escaped = "\\\\";
        break;
      case '\n':
        escaped = "\\n";
        break;
      case '\r':
        escaped = "\\r";
        break;
      case '\t':
        escaped = "\\t";
        break;
      case '\b':
        escaped = "\\b";
        break;
      case '\f':
        escaped = "\\f";
        break;
      default:
        if (c >= 0x20 && (!ensure_ascii || c < 0x7F)) continue;
        if (c >= 0x10000) {
          escaped = absl::StrFormat("\\u%04x\\u%04x", static_cast<unsigned>(0xD7C0 + (c >> 10)),
                                    static_cast<unsigned>(0xDC00 + (c & 0x3FF)));
        } else {
          escaped = absl::StrFormat("\\u%04x", static_cast<unsigned>(c));
        }
    }
    out->Add(text.Slice(done, range.begin));
    out->AddContent(escaped);
    done = range.end;
  }
  out->Add(text.Slice(done, bytes.size()));
  out->AddTemplate("\"");
}

}  // namespace baton::tokenizer::jinja
