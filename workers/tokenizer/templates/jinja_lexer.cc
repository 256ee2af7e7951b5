// A template's text to tokens, as jinja2's lexer cuts it.
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_case.h"
#include "workers/tokenizer/jinja/jinja_text.h"
#include "workers/tokenizer/templates/jinja_syntax.h"

namespace baton::tokenizer::jinja {
namespace {

constexpr absl::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "*",
                                            "/",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                            ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

/// A rendering copies the names of its variables, and does not count them as it counts texts.

bool IsAsciiDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

/// As jinja2: "\r\n" and "\r" become "\n", and one newline at the end goes.
std::string Normalized(absl::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (absl::EndsWith(out, "\n")) out.pop_back();
  return out;
}

size_t SpaceAt(absl::string_view text, size_t at) {
  const Utf8Char c = ReadUtf8(text.substr(at));
  return c.kind == Utf8Char::Kind::kValid && IsSpace(c.code_point) ? c.length : 0;
}

class Lexer {
 public:
  explicit Lexer(absl::string_view source) : source_(Normalized(source)) {}

  std::vector<Token> Run() {
    while (at_ < source_.size()) Text();
    Add(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void Fail(const std::string& message) const {
    throw Error{Error::Kind::kSyntax, message, line_};
  }
  absl::string_view rest() const { return absl::string_view(source_).substr(at_); }
  void Add(Token::Kind kind, absl::string_view text) {
    tokens_.push_back({kind, std::string(text), line_});
  }
  /// Goes on to `to`, counting lines.
  void Skip(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }
  size_t NextTag() const {
    for (size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] == '{' &&
          (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#')) {
        return i;
      }
    }
    return source_.size();
  }

  /// lstrip_blocks: `text` without the white space of its last line, if that has nothing else.
  absl::string_view WithoutIndent(absl::string_view text) const {
    const size_t newline = text.rfind('\n');
    if (newline == absl::string_view::npos && !line_starts_) return text;
    const size_t begin = newline == absl::string_view::npos ? 0 : newline + 1;
    const RenderedText last(text.substr(begin));
    return Strip(last, Side::kBoth).text().empty() ? text.substr(0, begin) : text;
  }

  /// A text and the tag after it.
  void Text() {
    const size_t tag = NextTag();
    absl::string_view text = absl::string_view(source_).substr(at_, tag - at_);
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    const char kind = tag < source_.size() ? source_[tag + 1] : '\0';
    if (kind != '\0' && sign == '-') {
      text = text.substr(0, Strip(RenderedText(text), Side::kRight).text().size());
    } else if ((kind == '%' || kind == '#') && sign != '+') {
      text = WithoutIndent(text);
    }
    if (!text.empty()) Add(Token::Kind::kText, text);
    Skip(tag);
    if (kind == '\0') return;
    const bool has_sign = sign == '-' || sign == '+';
    if (kind == '#') return Comment(has_sign ? 3 : 2);
    const int line = line_;
    Skip(tag + (has_sign ? 3 : 2));
    if (kind == '%' && Raw(line)) return;
    Add(kind == '{' ? Token::Kind::kOutputBegin : Token::Kind::kStatementBegin, "");
    Inside(kind == '{' ? "}}" : "%}");
  }

  /// After a tag's end at `at`: what of the text goes with it. `minus`: it had one.
  void EndTag(size_t at, bool minus, bool trims_newline) {
    if (minus) {
      while (at < source_.size()) {
        const size_t space = SpaceAt(source_, at);
        if (space == 0) break;
        at += space;
      }
    } else if (trims_newline && at < source_.size() && source_[at] == '\n') {
      ++at;
    }
    Skip(at);
    line_starts_ = at > 0 && source_[at - 1] == '\n';
  }

  /// `begin`: how long its beginning is.
  void Comment(size_t begin) {
    const size_t end = source_.find("#}", at_ + begin);
    if (end == std::string::npos) Fail("a comment that begins with {# has no #}");
    const char sign = end > at_ + begin ? source_[end - 1] : '\0';
    EndTag(end + 2, sign == '-', sign != '+');
  }

  /// {% raw %} … {% endraw %}, whose text is taken as it is.
  bool Raw(int line) {
    size_t at = at_;
    const auto spaces = [&] {
      while (at < source_.size() && SpaceAt(source_, at) > 0) at += SpaceAt(source_, at);
    };
    const auto word = [&](absl::string_view wanted) {
      if (!absl::StartsWith(absl::string_view(source_).substr(at), wanted)) return false;
      at += wanted.size();
      return true;
    };
    /// "-%}", "+%}" or "%}" after it; `sign` is '\0' without one.
    const auto closes = [&](char* sign) {
      spaces();
      const char c = at < source_.size() ? source_[at] : '\0';
      *sign = c == '-' || c == '+' ? c : '\0';
      if (*sign != '\0') ++at;
      return word("%}");
    };
    spaces();
    char end_sign = '\0';
    if (!word("raw") || !closes(&end_sign) || end_sign == '+') return false;
    EndTag(at, end_sign == '-', false);
    for (size_t from = at_; (from = source_.find("{%", from)) != std::string::npos; from += 2) {
      at = from + 2;
      const char sign = at < source_.size() ? source_[at] : '\0';
      if (sign == '-' || sign == '+') ++at;
      spaces();
      if (!word("endraw") || !closes(&end_sign)) continue;
      absl::string_view text = absl::string_view(source_).substr(at_, from - at_);
      if (sign == '-') {
        text = text.substr(0, Strip(RenderedText(text), Side::kRight).text().size());
      } else if (sign != '+') {
        text = WithoutIndent(text);
      }
      if (!text.empty()) Add(Token::Kind::kText, text);
      EndTag(at, end_sign == '-', end_sign != '+');
      return true;
    }
    line_ = line;
    Fail("{% raw %} has no {% endraw %}");
  }

  /// Up to the tag's end, which brackets hide.
  void Inside(absl::string_view end) {
    const int begun = line_;
    int depth = 0;
    while (at_ < source_.size()) {
      if (const size_t space = SpaceAt(source_, at_); space > 0) {
        Skip(at_ + space);
        continue;
      }
      const bool minus = source_[at_] == '-';
      const bool plus = source_[at_] == '+' && end == "%}";
      if (depth == 0 && absl::StartsWith(rest().substr(minus || plus ? 1 : 0), end)) {
        Add(end == "}}" ? Token::Kind::kOutputEnd : Token::Kind::kStatementEnd, "");
        return EndTag(at_ + (minus || plus ? 3 : 2), minus, end == "%}" && !plus);
      }
      depth += One();
      if (depth < 0) Fail(absl::StrCat("'", tokens_.back().text, "' closes nothing"));
    }
    line_ = begun;
    Fail(absl::StrCat("a tag has no ", end));
  }

  /// Of the name at hand; where it is where there is none.
  size_t EndOfName() const {
    size_t end = at_;
    while (end < source_.size()) {
      const Utf8Char c = ReadUtf8(absl::string_view(source_).substr(end));
      if (c.kind != Utf8Char::Kind::kValid) break;
      if (end == at_ ? !BeginsName(c.code_point) : !ContinuesName(c.code_point)) break;
      end += c.length;
    }
    return end;
  }

  /// Reads one token; returns what it adds to the depth of brackets.
  int One() {
    const char c = source_[at_];
    if (const size_t end = EndOfName(); end > at_) {
      if (end - at_ > Budget::kMaxNameBytes) {
        throw Error{Error::Kind::kLimit, "a name has more than 1000 bytes", line_};
      }
      Add(Token::Kind::kName, rest().substr(0, end - at_));
      Skip(end);
      return 0;
    }
    if (IsAsciiDigit(c)) return Number();
    if (c == '\'' || c == '"') return String(c);
    for (const absl::string_view op : kOperators) {
      if (!absl::StartsWith(rest(), op)) continue;
      Add(Token::Kind::kOperator, op);
      Skip(at_ + op.size());
      return op == "(" || op == "[" || op == "{" ? 1 : op == ")" || op == "]" || op == "}" ? -1 : 0;
    }
    Fail(absl::StrCat("'", std::string(1, c), "' is no part of Jinja"));
  }

  /// As jinja2's regular expressions cut it: an underscore stands between two digits alone, and
  /// what follows a point (x.0.1) is no float.
  int Number() {
    const bool after_point = at_ > 0 && source_[at_ - 1] == '.';
    const size_t float_end = after_point ? at_ : EndOfFloat();
    const size_t end = float_end > at_ ? float_end : EndOfInteger();
    std::string text(rest().substr(0, end - at_));
    if (float_end > at_) {
      text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
      Add(Token::Kind::kFloat, text);
    } else {
      Add(Token::Kind::kInteger, text);
    }
    Skip(end);
    return 0;
  }

  /// Of the digits from `at` on that `is_digit` takes, single underscores between them.
  template <class Digit>
  size_t EndOfDigits(size_t at, Digit is_digit) const {
    const auto digit = [&](size_t i) { return i < source_.size() && is_digit(source_[i]); };
    while (digit(at) || (at < source_.size() && source_[at] == '_' && digit(at + 1))) ++at;
    return at;
  }

  size_t EndOfFloat() const {
    const size_t whole = EndOfDigits(at_, IsAsciiDigit);
    size_t end = whole;
    const auto digit = [&](size_t i) { return i < source_.size() && IsAsciiDigit(source_[i]); };
    if (end < source_.size() && source_[end] == '.' && digit(end + 1)) {
      end = EndOfDigits(end + 1, IsAsciiDigit);
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const bool sign =
          end + 1 < source_.size() && (source_[end + 1] == '-' || source_[end + 1] == '+');
      if (digit(end + (sign ? 2 : 1))) end = EndOfDigits(end + (sign ? 2 : 1), IsAsciiDigit);
    }
    return end > whole ? end : at_;
  }

  /// 0x1f, 0o17, 0b11, digits that begin with no 0, or zeros.
  size_t EndOfInteger() const {
    const auto in_base = [](int base) {
      return [base](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return base == 16 ? absl::ascii_isxdigit(byte) : c >= '0' && c < '0' + base;
      };
    };
    if (source_[at_] != '0') return EndOfDigits(at_, in_base(10));
    const char letter = at_ + 1 < source_.size() ? source_[at_ + 1] : '\0';
    const int base = letter == 'x' || letter == 'X'   ? 16
                     : letter == 'o' || letter == 'O' ? 8
                     : letter == 'b' || letter == 'B' ? 2
                                                      : 0;
    if (base != 0) {
      const size_t first = at_ + (at_ + 2 < source_.size() && source_[at_ + 2] == '_' ? 3 : 2);
      const size_t end = EndOfDigits(first, in_base(base));
      if (end > first) return end;
    }
    return EndOfDigits(at_, in_base(1));
  }

  int String(char quote) {
    const int line = line_;
    std::string text;
    size_t i = at_ + 1;
    while (i < source_.size() && source_[i] != quote) {
      if (source_[i] != '\\' || i + 1 == source_.size()) {
        text += source_[i++];
      } else {
        i = Escape(i + 1, &text);
      }
    }
    if (i >= source_.size()) Fail("a string has no closing quote");
    Skip(i + 1);
    tokens_.push_back({Token::Kind::kString, std::move(text), line});
    return 0;
  }

  /// Appends the character of the escape whose letter is at `i`; returns where it ends.
  size_t Escape(size_t i, std::string* out) {
    static constexpr absl::string_view kLetters = "abfnrtv\\'\"";
    static constexpr absl::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";
    const char c = source_[i];
    if (c == '\n') return i + 1;
    if (const size_t at = kLetters.find(c); at != absl::string_view::npos) {
      *out += kMeanings[at];
      return i + 1;
    }
    size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    const bool octal = c >= '0' && c <= '7';
    char32_t code = 0;
    if (octal) {
      size_t end = i;
      while (end < std::min(i + 3, source_.size()) && source_[end] >= '0' && source_[end] <= '7') {
        code = code * 8 + static_cast<char32_t>(source_[end++] - '0');
      }
      AppendUtf8(code, out);
      return end;
    }
    if (c == 'N') {
      throw Error{Error::Kind::kUnsupported, "the escape \\N of a string is not supported", line_};
    }
    if (digits == 0) return UnknownEscape(i, out);
    for (++i; digits > 0; --digits, ++i) {
      if (i >= source_.size() || !absl::ascii_isxdigit(static_cast<unsigned char>(source_[i]))) {
        Fail(absl::StrCat("the escape \\", std::string(1, c), " of a string is cut short"));
      }
      const char d = absl::ascii_tolower(static_cast<unsigned char>(source_[i]));
      code = code * 16 + static_cast<char32_t>(IsAsciiDigit(d) ? d - '0' : d - 'a' + 10);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
      Fail("the escape of a string is no character");
    }
    AppendUtf8(code, out);
    return i;
  }

  /// Python keeps an escape that it does not know; jinja2 writes a character beyond ASCII in it as
  /// a number.
  size_t UnknownEscape(size_t i, std::string* out) const {
    *out += '\\';
    const Utf8Char c = ReadUtf8(absl::string_view(source_).substr(i));
    const size_t length = std::max<size_t>(1, c.length);
    const auto code = static_cast<unsigned>(c.code_point);
    *out += length == 1      ? source_.substr(i, 1)
            : code < 0x100   ? absl::StrFormat("x%02x", code)
            : code < 0x10000 ? absl::StrFormat("u%04x", code)
                             : absl::StrFormat("U%08x", code);
    return i + length;
  }

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Lex(absl::string_view source) { return Lexer(source).Run(); }

}  // namespace baton::tokenizer::jinja
