// TranslatePattern: regular expressions in Oniguruma's Ruby syntax, as PCRE2 has them.
// Source of the differences: Oniguruma's doc/RE and doc/UNICODE_PROPERTIES, pcre2pattern(3), and
// what tokenizers 0.23 does (text_pattern_test.cc).
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "sdk/common/base/regex.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/steps/json_components.h"
#include "workers/tokenizer/steps/pattern_property.h"
#include "workers/tokenizer/steps/text_pattern.h"
#include "workers/tokenizer/steps/unicode_text.h"

namespace baton::tokenizer {
namespace {

constexpr char kNotSupported[] = "Oniguruma's syntax but for that";

// Oniguruma's `\w` within a set: without the joiners.
constexpr char kSetWord[] = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}";
// Its `\w` outside of sets: with Latin-1's superscripts and fractions as well.
constexpr char kOnigurumaWord[] =
    "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";

// Pairs of letters that are one character in another spelling: Oniguruma finds "ß" by (?i)ss.
constexpr absl::string_view kJoinedPairs[] = {"ss", "ff", "fi", "fl", "st"};

constexpr int kMaxSetDepth = 16;

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
      {"word", kSetWord},
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
    out_.append(scopes_.back().implied_groups, ')');
    // Oniguruma's `^` and `$` are those of a line.
    return by_line_ ? absl::StrCat("(?m)", out_) : out_;
  }

 private:
  struct Scope {
    size_t begin = 0;           // in `out_`
    size_t implied_groups = 0;  // groups that end where this one does
    bool ignores_case = false;
  };

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
    if (c == '(') return Group();
    if (c == ')') {
      CloseGroup();
      return absl::OkStatus();
    }
    if (c == '{' || c == '*' || c == '+' || c == '?') {
      previous_ = '\0';
      return Quantifier();
    }
    atom_ = out_.size();
    if (c == '\\' || c == '[') {
      previous_ = '\0';
      return c == '[' ? Set() : Escape();
    }
    by_line_ |= c == '^' || c == '$';
    return Literal();
  }

  absl::Status Literal() {
    const absl::string_view character = Rest().substr(0, ReadUtf8(Rest()).length);
    if (scopes_.back().ignores_case) {
      const char pair[] = {previous_,
                           absl::ascii_tolower(static_cast<unsigned char>(character[0]))};
      const absl::string_view joined(pair, 2), behind = Rest().substr(character.size(), 1);
      const bool is_pair = std::find(std::begin(kJoinedPairs), std::end(kJoinedPairs), joined) !=
                           std::end(kJoinedPairs);
      // Quantified, the second letter is no neighbour of the first.
      if (is_pair && (behind.empty() || !absl::StrContains("*+?{", behind))) {
        return Refuse(absl::StrCat("(?i)", joined));
      }
      BATON_RETURN_IF_ERROR(CheckFolding(character));
    }
    previous_ = absl::ascii_tolower(static_cast<unsigned char>(character[0]));
    Copy(character.size());
    return absl::OkStatus();
  }

  // Without regard to case, Oniguruma finds "ss" by "ß" as well; PCRE2 looks for one character.
  absl::Status CheckFolding(absl::string_view character) const {
    if (!scopes_.back().ignores_case || character.size() < 2) return absl::OkStatus();
    if (!FoldsToSeveral(ReadUtf8(character).code_point)) return absl::OkStatus();
    return Refuse(absl::StrCat("(?i)", character));
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
    if (Begins("(*")) return Refuse("(*");
    Scope scope = {out_.size(), 0, scopes_.back().ignores_case};
    atom_ = out_.size();
    if (!Begins("(?")) {
      scopes_.push_back(scope);
      Copy(1);
      return absl::OkStatus();
    }
    if (Begins("(?#")) {
      const size_t close = pattern_.find(')', at_);
      Copy((close == absl::string_view::npos ? pattern_.size() : close + 1) - at_);
      return absl::OkStatus();
    }
    Copy(2);
    BATON_RETURN_IF_ERROR(Flags(&scope.ignores_case));
    if (Begins(")")) {
      // (?i): Oniguruma's reaches to the end of the group around it, over all its alternatives.
      out_ += ":";
      ++at_;
      ++scopes_.back().implied_groups;
      scopes_.back().ignores_case = scope.ignores_case;
      return absl::OkStatus();
    }
    if (Begins(":")) Copy(1);
    scopes_.push_back(scope);
    return absl::OkStatus();
  }

  absl::Status Flags(bool* ignores_case) {
    bool on = true;
    for (; at_ < pattern_.size(); ++at_) {
      const char flag = pattern_[at_];
      if (!absl::ascii_isalpha(static_cast<unsigned char>(flag)) && flag != '-') break;
      if (flag != 'i' && flag != 'x' && flag != 'm' && flag != '-') {
        return Refuse(absl::StrCat("(?", std::string(1, flag)));
      }
      if (flag == '-') on = false;
      if (flag == 'i') *ignores_case = on;
      out_.push_back(flag == 'm' ? 's' : flag);  // Oniguruma's m: a dot is any character
    }
    return absl::OkStatus();
  }

  void CloseGroup() {
    out_.append(scopes_.back().implied_groups, ')');
    if (scopes_.size() > 1) {
      atom_ = scopes_.back().begin;
      scopes_.pop_back();
    } else {
      scopes_.back().implied_groups = 0;
    }
    Copy(1);
  }

  // [members], or [members&&members]: what all of them have. PCRE2 has no such sets, but looks
  // ahead.
  absl::Status Set() {
    const size_t begin = out_.size();
    ++at_;
    const bool negated = Begins("^");
    if (negated) ++at_;
    std::vector<std::string> operands;
    do {
      if (!operands.empty()) at_ += 2;
      if (!operands.empty() && Begins("]")) return Refuse("[…&&]");
      const size_t operand = out_.size();
      // Another set that is negated has its own brackets.
      const bool alone = !operands.empty() && Begins("[^");
      if (alone) at_ += 2;
      out_ += alone ? "[^" : "[";
      BATON_RETURN_IF_ERROR(Members());
      out_ += "]";
      if (alone && Begins("]")) ++at_;
      if (alone && !Begins("]") && !Begins("&&") && at_ < pattern_.size()) {
        return Refuse("[…[^…]…]");
      }
      operands.push_back(out_.substr(operand));
      out_.resize(operand);
    } while (Begins("&&"));
    if (at_ < pattern_.size()) ++at_;
    out_.resize(begin);
    if (operands.size() == 1) {
      absl::StrAppend(&out_, negated ? "[^" : "[", operands[0].substr(1));
      return absl::OkStatus();
    }
    std::string all;
    for (size_t i = 1; i < operands.size(); ++i) absl::StrAppend(&all, "(?=", operands[i], ")");
    all += operands[0];
    absl::StrAppend(&out_, "(?:", negated ? absl::StrCat("(?!", all, ")(?s:.)") : all, ")");
    return absl::OkStatus();
  }

  // A set within another, whose members are the other's too.
  absl::Status NestedSet() {
    ++at_;
    if (Begins("^")) return Refuse("[…[^…]…]");
    if (++set_depth_ > kMaxSetDepth) return Refuse("[[[…");
    BATON_RETURN_IF_ERROR(Members());
    --set_depth_;
    if (Begins("&&")) return Refuse("[…[…&&…]…]");
    if (at_ < pattern_.size()) ++at_;
    return absl::OkStatus();
  }

  // The members of a set up to its end or to "&&".
  absl::Status Members() {
    if (Begins("]")) {  // the first: a member
      ++at_;
      out_ += "\\]";
    }
    while (at_ < pattern_.size() && pattern_[at_] != ']' && !Begins("&&")) {
      if (Begins("[:")) {
        BATON_RETURN_IF_ERROR(PosixSet());
      } else if (Begins("[")) {
        BATON_RETURN_IF_ERROR(NestedSet());
      } else if (Begins("\\")) {
        BATON_RETURN_IF_ERROR(EscapeInSet());
      } else {
        const size_t length = ReadUtf8(Rest()).length;
        BATON_RETURN_IF_ERROR(CheckFolding(Rest().substr(0, length)));
        Copy(length);
        continue;
      }
      // A hyphen behind a class of characters is no range's.
      if (Begins("-") && !Begins("-]") && ends_in_class_) {
        out_ += "\\-";
        ++at_;
      }
      ends_in_class_ = true;
    }
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

  // \p{Name}, \p{^Name}, \P{Name}, \P{^Name}
  absl::Status Property() {
    const size_t close = pattern_.find('}', at_);
    if (Rest().substr(2, 1) != "{" || close == absl::string_view::npos) {
      return Refuse(Rest().substr(0, 2));
    }
    absl::string_view name = pattern_.substr(at_ + 3, close - at_ - 3);
    const bool negated = absl::ConsumePrefix(&name, "^") != Begins("\\P");
    absl::StrAppend(&out_, negated ? "\\P{" : "\\p{", PropertyOfPcre2(name), "}");
    at_ = close + 1;
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
    if (c == 'p' || c == 'P') {
      ends_in_class_ = true;
      return Property();
    }
    const char* characters = c == 's'   ? kWhiteSpaceCharacters
                             : c == 'w' ? kSetWord
                             : c == 'h' ? "0-9a-fA-F"
                                        : nullptr;
    if (characters != nullptr) {
      out_ += characters;
      at_ += 2;
      return absl::OkStatus();
    }
    ends_in_class_ = absl::string_view("SdD").find(c) != absl::string_view::npos;
    // \S stays PCRE2's, which differs in U+180E alone.
    if (c == 'v') {
      out_ += "\\x{b}";
      at_ += 2;
      return absl::OkStatus();
    }
    return CopyEscape("SdDxtnrfaeb01234567", /*in_set=*/true);
  }

  absl::Status Escape() {
    const char c = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
    if (c == 'u') return CodePoint();
    if (c == 'p' || c == 'P') return Property();
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
    return CopyEscape("dDxtnrfaeAzZGRXNKk0123456789", /*in_set=*/false);
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
    if (c == 'x' && at_ + 2 < pattern_.size() && pattern_[at_ + 2] == '{') {
      const size_t close = pattern_.find('}', at_);
      if (close != absl::string_view::npos) length = close + 1 - at_;
    }
    Copy(length);
    return absl::OkStatus();
  }

  const absl::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;                   // where in `out_` that begins which a quantifier would repeat
  std::vector<Scope> scopes_ = {{}};  // the whole pattern, and the open groups
  char previous_ = '\0';              // the letter before, in lower case; 0: something else
  int set_depth_ = 0;                 // sets within the set
  bool by_line_ = false;
  bool ends_in_class_ = true;  // the last member of the set is a class, not one character
};

}  // namespace

absl::StatusOr<std::string> TranslatePattern(absl::string_view pattern) {
  if (pattern.size() > RegexOptions().max_pattern_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the regular expression has ", pattern.size(),
                                                   " bytes; there may be ",
                                                   RegexOptions().max_pattern_bytes, " at most"));
  }
  return Translator(pattern).Run();
}

}  // namespace baton::tokenizer
