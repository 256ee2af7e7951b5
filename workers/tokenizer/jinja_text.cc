#include "workers/tokenizer/jinja_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/base/utf8.h"
#include "workers/tokenizer/jinja_budget.h"

namespace baton::tokenizer::jinja {
namespace {

/// The character at `at`: its code point (U+FFFD of a byte that is no UTF-8) and its bytes.
std::pair<char32_t, size_t> CharacterAt(absl::string_view text, size_t at) {
  const Utf8Char character = ReadUtf8(text.substr(at));
  if (character.kind != Utf8Char::Kind::kValid) return {0xFFFD, 1};
  return {character.code_point, character.length};
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

std::vector<TextRange> Characters(absl::string_view text) {
  std::vector<TextRange> out;
  for (size_t at = 0; at < text.size();) {
    const size_t length = CharacterAt(text, at).second;
    out.push_back({at, at + length});
    at += length;
  }
  return out;
}

RenderedText Strip(const RenderedText& text, Side side,
                   std::optional<absl::string_view> characters) {
  const absl::string_view bytes = text.text();
  const std::vector<TextRange> all = Characters(bytes);
  const auto goes = [&](const TextRange& range) {
    if (!characters.has_value()) return IsSpace(CharacterAt(bytes, range.begin).first);
    return IsIn(bytes.substr(range.begin, range.end - range.begin), *characters);
  };
  size_t first = 0, last = all.size();
  if (side != Side::kRight) {
    while (first < last && goes(all[first])) ++first;
  }
  if (side != Side::kLeft) {
    while (last > first && goes(all[last - 1])) --last;
  }
  if (first == last) return {};
  return text.Slice(all[first].begin, all[last - 1].end);
}

std::vector<RenderedText> Split(const RenderedText& text, absl::string_view separator,
                                int64_t limit, bool from_right) {
  const std::string& bytes = text.text();
  std::vector<size_t> cuts;
  const auto wanted = [&] { return limit < 0 || static_cast<int64_t>(cuts.size()) < limit; };
  if (from_right) {
    for (size_t end = bytes.size(); wanted() && end >= separator.size();) {
      const size_t at = bytes.rfind(separator.data(), end - separator.size(), separator.size());
      if (at == std::string::npos) break;
      cuts.push_back(at);
      end = at;
    }
    std::reverse(cuts.begin(), cuts.end());
  } else {
    for (size_t from = 0; wanted();) {
      const size_t at = bytes.find(separator.data(), from, separator.size());
      if (at == std::string::npos) break;
      cuts.push_back(at);
      from = at + separator.size();
    }
  }
  std::vector<RenderedText> parts;
  size_t from = 0;
  for (const size_t at : cuts) {
    parts.push_back(text.Slice(from, at));
    from = at + separator.size();
  }
  parts.push_back(text.Slice(from, bytes.size()));
  return parts;
}

std::vector<RenderedText> SplitWords(const RenderedText& text, int64_t limit) {
  const absl::string_view bytes = text.text();
  std::vector<RenderedText> parts;
  const std::vector<TextRange> all = Characters(bytes);
  const auto space = [&](size_t i) { return IsSpace(CharacterAt(bytes, all[i].begin).first); };
  for (size_t i = 0; i < all.size();) {
    while (i < all.size() && space(i)) ++i;
    if (i == all.size()) break;
    if (limit >= 0 && static_cast<int64_t>(parts.size()) == limit) {
      parts.push_back(Strip(text.Slice(all[i].begin, bytes.size()), Side::kRight));
      break;
    }
    const size_t begin = all[i].begin;
    while (i < all.size() && !space(i)) ++i;
    parts.push_back(text.Slice(begin, i < all.size() ? all[i].begin : bytes.size()));
  }
  return parts;
}

std::vector<RenderedText> SplitLines(const RenderedText& text) {
  const std::string& bytes = text.text();
  std::vector<RenderedText> lines;
  for (size_t from = 0; from < bytes.size();) {
    const size_t end = std::min(bytes.find_first_of("\n\r\v\f", from), bytes.size());
    lines.push_back(text.Slice(from, end));
    from = end + (bytes.compare(end, 2, "\r\n") == 0 ? 2 : 1);
  }
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
      Budget::CheckText(out.text().size());
    }
    insert();
    Budget::SpendText(out.text().size());
    return out;
  }
  const std::vector<RenderedText> parts = Split(text, from, limit);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out.Add(to);
    out.Add(parts[i]);
    Budget::CheckText(out.text().size());
  }
  Budget::SpendText(out.text().size());
  return out;
}

RenderedText ChangeCase(const RenderedText& text, Case how) {
  std::string bytes = text.text();
  bool begins = true;
  for (char& c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    const bool up = how == Case::kUpper || (how != Case::kLower && begins);
    c = up ? absl::ascii_toupper(byte) : absl::ascii_tolower(byte);
    begins = how == Case::kTitle && byte < 0x80 && !absl::ascii_isalpha(byte);
  }
  RenderedText out;
  size_t done = 0;
  for (const TextRange& range : text.template_ranges()) {
    out.AddContent(absl::string_view(bytes).substr(done, range.begin - done));
    out.AddTemplate(absl::string_view(bytes).substr(range.begin, range.end - range.begin));
    done = range.end;
  }
  out.AddContent(absl::string_view(bytes).substr(done));
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
    } else if (c < 0x20 || (c >= 0x7F && c <= 0xA0) || c == 0xAD) {
      escaped = absl::StrFormat("\\x%02x", static_cast<unsigned>(c));
    } else {
      continue;
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

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto result =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const absl::string_view written(buffer, static_cast<size_t>(result.ptr - buffer));
  const size_t e = written.find('e');
  int exponent = 0;
  const bool negative_exponent = written[e + 1] == '-';
  for (const char c : written.substr(e + 2)) exponent = exponent * 10 + (c - '0');
  if (negative_exponent) exponent = -exponent;
  std::string digits, sign;
  for (const char c : written.substr(0, e)) {
    if (c == '-') sign = "-";
    if (absl::ascii_isdigit(static_cast<unsigned char>(c))) digits += c;
  }
  if (exponent < -4 || exponent >= 16) {
    std::string mantissa = digits.substr(0, 1);
    if (digits.size() > 1) mantissa += "." + digits.substr(1);
    return absl::StrFormat("%s%se%s%02d", sign, mantissa, exponent < 0 ? "-" : "+",
                           std::abs(exponent));
  }
  if (exponent < 0) {
    return absl::StrCat(sign, "0.", std::string(static_cast<size_t>(-exponent - 1), '0'), digits);
  }
  const auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) {
    return absl::StrCat(sign, digits, std::string(whole - digits.size(), '0'), ".0");
  }
  return absl::StrCat(sign, digits.substr(0, whole), ".", digits.substr(whole));
}

}  // namespace baton::tokenizer::jinja
