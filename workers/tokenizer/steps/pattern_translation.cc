// TranslatePattern: regular expressions in Oniguruma's Ruby syntax, as PCRE2 has them.
// Source of the differences: Oniguruma's doc/RE and doc/UNICODE_PROPERTIES, pcre2pattern(3), and
// what tokenizers 0.23 does (text_pattern_test.cc).
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "sdk/common/base/status_macros.h"
#include "workers/tokenizer/steps/json_components.h"
#include "workers/tokenizer/steps/text_pattern.h"

namespace baton::tokenizer {
namespace {

constexpr char kNotSupported[] = "Oniguruma's syntax but for that";

// Oniguruma's `\w`: without the joiners, but with Latin-1's superscripts and fractions.
constexpr char kOnigurumaWord[] =
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";

// A POSIX class's characters, as the inside of a set; null: no translation.
const char* PosixClass(absl::string_view name) {
  static constexpr std::pair<absl::string_view, const char*> kClasses[] = {
      {"alpha", "\\p{Alphabetic}"},
      {"digit", "\\p{Nd}"},
      {"alnum", "\\p{Alphabetic}\\p{Nd}"},
      {"upper", "\\p{Uppercase}"},
      {"lower", "\\p{Lowercase}"},
      {"space", kWhiteSpaceCharacters},
      {"punct", "\\p{P}\\p{S}"},
      {"word", kOnigurumaWord},
      {"xdigit", "0-9a-fA-F"}};
  for (const auto& [known, characters] : kClasses) {
    if (known == name) return characters;
  }
  return nullptr;
}

class Translator {
 public:
  explicit Translator(absl::string_view pattern) : pattern_(pattern) {}

  absl::StatusOr<std::string> Run() {
    while (at_ < pattern_.size()) BATON_RETURN_IF_ERROR(Next());
    // Oniguruma's `^` and `$` are those of a line.
    return by_line_ ? absl::StrCat("(?m)", out_) : out_;
  }

 private:
  absl::string_view Rest() const { return pattern_.substr(at_); }
  bool Begins(absl::string_view text) const { return Rest().substr(0, text.size()) == text; }
  absl::Status Refuse(absl::string_view what) const {
    return Unsupported("the regular expression", absl::StrCat("'", what, "'"), kNotSupported);
  }
  void Copy(size_t bytes) {
    absl::StrAppend(&out_, Rest().substr(0, bytes));
    at_ += bytes;
  }

  absl::Status Next() {
    const char c = pattern_[at_];
    if (c == '{' || c == '*' || c == '+' || c == '?') return Quantifier();
    if (c == ')') {
      if (!groups_.empty()) {
        atom_ = groups_.back();
        groups_.pop_back();
      }
      Copy(1);
      return absl::OkStatus();
    }
    atom_ = out_.size();
    if (c == '\\') return Escape();
    if (c == '(') return Group();
    if (c == '[') return Set(/*nested=*/false);
    by_line_ |= c == '^' || c == '$';
    Copy(1);
    // The other bytes of a character belong to the same atom.
    while (at_ < pattern_.size() && (static_cast<unsigned char>(pattern_[at_]) & 0xC0) == 0x80) {
      Copy(1);
    }
    return absl::OkStatus();
  }

  absl::Status Quantifier() {
    if (pattern_[at_] != '{') {
      Copy(1);
      return absl::OkStatus();
    }
    const size_t close = pattern_.find('}', at_);
    const absl::string_view inside =
        close == absl::string_view::npos ? "" : pattern_.substr(at_ + 1, close - at_ - 1);
    const bool is_interval = inside.find_first_of("0123456789") != absl::string_view::npos &&
                             inside.find_first_not_of("0123456789,") == absl::string_view::npos;
    if (!is_interval) {
      Copy(1);
      return absl::OkStatus();
    }
    absl::StrAppend(&out_, "{", inside[0] == ',' ? "0" : "", inside, "}");
    at_ = close + 1;
    // A `+` behind an interval repeats it; PCRE2's would make it possessive. So does `?` behind an
    // interval of one number, which makes it optional.
    const bool fixed = inside.find(',') == absl::string_view::npos;
    if (Begins("+") || (fixed && Begins("?"))) {
      out_.insert(atom_, "(?:");
      out_ += ")";
    }
    return absl::OkStatus();
  }

  absl::Status Group() {
    groups_.push_back(out_.size());
    if (Begins("(*")) return Refuse("(*");
    if (!Begins("(?")) {
      Copy(1);
      return absl::OkStatus();
    }
    if (Begins("(?#")) {
      const size_t close = pattern_.find(')', at_);
      Copy((close == absl::string_view::npos ? pattern_.size() : close) - at_);
      return absl::OkStatus();
    }
    Copy(2);
    while (
        at_ < pattern_.size() &&
        (absl::ascii_isalpha(static_cast<unsigned char>(pattern_[at_])) || pattern_[at_] == '-')) {
      const char flag = pattern_[at_++];
      if (flag != 'i' && flag != 'x' && flag != 'm' && flag != '-') {
        return Refuse(absl::StrCat("(?", std::string(1, flag)));
      }
      out_.push_back(flag == 'm' ? 's' : flag);  // Oniguruma's m: a dot is any character
    }
    if (Begins(":") || Begins(")")) {
      if (Begins(")")) groups_.pop_back();  // (?i): no group of its own
      Copy(1);
    }
    return absl::OkStatus();
  }

  // A set; or one within another, whose members are the other's too.
  absl::Status Set(bool nested) {
    ++at_;
    if (!nested) out_ += "[";
    if (Begins("^")) {
      if (nested) return Refuse("[…[^…]…]");
      Copy(1);
    }
    if (Begins("]")) {  // the first: a member
      ++at_;
      out_ += "\\]";
    }
    while (at_ < pattern_.size() && pattern_[at_] != ']') {
      if (Begins("&&")) return Refuse("[…&&…]");
      if (Begins("[:")) {
        BATON_RETURN_IF_ERROR(PosixSet());
      } else if (Begins("[")) {
        BATON_RETURN_IF_ERROR(Set(/*nested=*/true));
      } else if (Begins("\\")) {
        BATON_RETURN_IF_ERROR(EscapeInSet());
      } else {
        Copy(1);
        continue;
      }
      // A hyphen behind a class of characters is no range's.
      if (Begins("-") && !Begins("-]") && ends_in_class_) {
        out_ += "\\-";
        ++at_;
      }
      ends_in_class_ = true;
    }
    if (at_ < pattern_.size()) ++at_;
    if (!nested) out_ += "]";
    return absl::OkStatus();
  }

  absl::Status PosixSet() {
    const size_t end = pattern_.find(":]", at_ + 2);
    const absl::string_view name =
        end == absl::string_view::npos ? Rest() : pattern_.substr(at_ + 2, end - at_ - 2);
    const char* characters = PosixClass(name);
    if (characters == nullptr) return Refuse(absl::StrCat("[:", name, ":]"));
    out_ += characters;
    at_ = end + 2;
    return absl::OkStatus();
  }

  // \u0041 -> \x{0041}
  absl::Status CodePoint() {
    const absl::string_view digits = Rest().substr(2, 4);
    for (const char c : digits) {
      if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return Refuse("\\u");
    }
    if (digits.size() != 4) return Refuse("\\u");
    absl::StrAppend(&out_, "\\x{", digits, "}");
    at_ += 6;
    return absl::OkStatus();
  }

  absl::Status EscapeInSet() {
    const char c = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
    if (c == 'u') {
      ends_in_class_ = false;
      return CodePoint();
    }
    const char* characters = c == 's'   ? kWhiteSpaceCharacters
                             : c == 'w' ? kOnigurumaWord
                             : c == 'h' ? "0-9a-fA-F"
                                        : nullptr;
    if (characters != nullptr) {
      out_ += characters;
      at_ += 2;
      return absl::OkStatus();
    }
    ends_in_class_ = absl::string_view("SdDpP").find(c) != absl::string_view::npos;
    // \S stays PCRE2's, which differs in U+180E alone.
    if (c == 'v') {
      out_ += "\\x{b}";
      at_ += 2;
      return absl::OkStatus();
    }
    return CopyEscape("SdDpPxtnrfaeb01234567", /*in_set=*/true);
  }

  absl::Status Escape() {
    const char c = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
    if (c == 'u') return CodePoint();
    const std::string word = absl::StrCat("[", kOnigurumaWord, "]");
    const std::pair<char, std::string> translations[] = {
        {'s', absl::StrCat("[", kWhiteSpaceCharacters, "]")},
        {'S', absl::StrCat("[^", kWhiteSpaceCharacters, "]")},
        {'w', word},
        {'W', absl::StrCat("[^", kOnigurumaWord, "]")},
        {'h', "[0-9a-fA-F]"},
        {'H', "[^0-9a-fA-F]"},
        {'v', "\\x{b}"},
        {'O', "(?s:.)"},
        {'b', absl::StrCat("(?:(?<=", word, ")(?!", word, ")|(?<!", word, ")(?=", word, "))")},
        {'B', absl::StrCat("(?:(?<=", word, ")(?=", word, ")|(?<!", word, ")(?!", word, "))")}};
    for (const auto& [letter, translation] : translations) {
      if (letter != c) continue;
      out_ += translation;
      at_ += 2;
      return absl::OkStatus();
    }
    return CopyEscape("dDpPxtnrfaeAzZGRXNKk0123456789", /*in_set=*/false);
  }

  absl::Status CopyEscape(absl::string_view letters, bool in_set) {
    if (at_ + 1 >= pattern_.size()) {
      Copy(1);  // the compiler says what is wrong
      return absl::OkStatus();
    }
    const char c = pattern_[at_ + 1];
    const bool is_letter = absl::ascii_isalnum(static_cast<unsigned char>(c));
    if (is_letter && letters.find(c) == absl::string_view::npos) {
      return Refuse(absl::StrCat(in_set ? "[…" : "", "\\", std::string(1, c), in_set ? "…]" : ""));
    }
    size_t length = 2;
    const bool named = c == 'p' || c == 'P' || c == 'x';
    if (named && at_ + 2 < pattern_.size() && pattern_[at_ + 2] == '{') {
      const size_t close = pattern_.find('}', at_);
      if (close != absl::string_view::npos) length = close + 1 - at_;
    }
    Copy(length);
    return absl::OkStatus();
  }

  const absl::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;             // where in `out_` that begins which a quantifier would repeat
  std::vector<size_t> groups_;  // where in `out_` the open groups begin
  bool by_line_ = false;
  bool ends_in_class_ = true;  // the last member of the set is a class, not one character
};

}  // namespace

absl::StatusOr<std::string> TranslatePattern(absl::string_view pattern) {
  return Translator(pattern).Run();
}

}  // namespace baton::tokenizer
