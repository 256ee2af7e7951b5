#include "workers/reward/numbers/read_number.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "sdk/common/base/utf8.h"
#include "workers/reward/numbers/number_marks.h"
#include "workers/reward/numbers/number_scanner.h"

namespace baton::reward {
namespace {

using Kind = NumberReading::Kind;

// Letters that mean a unit beside a number: metres, grams, seconds … Others may be a variable.
constexpr absl::string_view kUnitLetters = "mgshdlLAVWNJCFt";

bool IsSpace(char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)) || c == kGroup; }
bool IsAsciiDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

// Letters that join with a number into a name or a product: those of ASCII, and Greek ones. A
// number often stands right behind letters of scripts without capitals.
bool IsNameLetter(char32_t c) {
  return (c < 0x80 && absl::ascii_isalpha(static_cast<unsigned char>(c))) ||
         (c >= 0x391 && c <= 0x3C9);
}

char32_t FirstOf(absl::string_view text) { return text.empty() ? 0 : ReadUtf8(text).code_point; }

char32_t LastOf(absl::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && (static_cast<unsigned char>(text[begin - 1]) & 0xc0) == 0x80) --begin;
  return begin == 0 ? 0 : ReadUtf8(text.substr(begin - 1)).code_point;
}

absl::string_view WithoutSpaces(absl::string_view before) {
  while (!before.empty() && IsSpace(before.back())) before.remove_suffix(1);
  return before;
}

NumberReading Ambiguous(absl::string_view why) {
  NumberReading out;
  out.kind = Kind::kAmbiguous;
  out.why = std::string(why);
  return out;
}

// Whether the text ends with a value: what a sign or an operator behind it joins with.
bool EndsWithValue(absl::string_view before) {
  const char32_t last = LastOf(before);
  return IsNameLetter(last) ||
         (last < 0x80 && (IsAsciiDigit(static_cast<char>(last)) ||
                          absl::StrContains(")]}%", static_cast<char>(last))));
}

// The command of LaTeX that the text ends with: "\sqrt"; "": none.
absl::string_view CommandAtEnd(absl::string_view before) {
  size_t begin = before.size();
  while (begin > 0 && absl::ascii_isalpha(static_cast<unsigned char>(before[begin - 1]))) --begin;
  if (begin == 0 || begin == before.size() || before[begin - 1] != '\\') return "";
  return before.substr(begin - 1);
}

struct Sign {
  bool negative = false;
  std::string why;  // it may be a sign or something else
};

// Reads a sign at the end of `before`, the text up to a number, and takes it and currency signs
// off.
Sign TakeSign(absl::string_view* before) {
  const auto take_currency = [&] {
    absl::string_view rest = WithoutSpaces(*before);
    if (rest.empty() || rest.back() != '$') return;
    while (!rest.empty() && rest.back() == '$') rest.remove_suffix(1);
    *before = rest;
  };
  take_currency();
  const absl::string_view rest = WithoutSpaces(*before);
  if (rest.empty()) return {};
  const bool apart = rest.size() < before->size();
  const char mark = rest.back();
  if (mark == kDash) {
    if (apart) return {};  // punctuation
    return {false, "a dash before it may be a minus sign"};
  }
  if (mark != '-' && mark != '+') return {};
  const absl::string_view left = rest.substr(0, rest.size() - 1);
  const absl::string_view value = WithoutSpaces(left);
  const bool clear = !value.empty() && absl::StrContains("=:(", value.back());
  const char32_t joined = LastOf(left);
  const bool differs = EndsWithValue(left) || joined == '-' || joined == '+' || joined == '/' ||
                       (!value.empty() && IsAsciiDigit(value.back()));
  if (differs || (apart && !clear)) return {false, "it may be an operand, or have a sign"};
  *before = left;
  take_currency();
  return {mark == '-', ""};
}

// Whether a text that ends with ">" ends with a tag (<answer>), an arrow (->), an annotation
// (<<3+4=7>>) or the mark of a quoted line, and not with "greater than".
bool EndsWithBracket(absl::string_view before, bool apart) {
  const absl::string_view left = before.substr(0, before.size() - 1);
  const size_t line = left.rfind('\n') + 1;  // 0 if there is none
  if (apart && WithoutSpaces(left.substr(line)).empty()) return true;
  if (left.empty()) return false;
  if (absl::StrContains("->=", left.back())) return true;
  const size_t open = left.rfind('<');
  if (open == absl::string_view::npos || open + 1 == left.size()) return false;
  const absl::string_view inside = left.substr(open + 1);
  return (absl::ascii_isalpha(static_cast<unsigned char>(inside[0])) || inside[0] == '/') &&
         !absl::StrContains(inside, '>');
}

// The reason why what stands before a number makes it a part of more; "": none does.
std::string JoinedBefore(absl::string_view before) {
  const absl::string_view rest = WithoutSpaces(before);
  const bool apart = rest.size() < before.size();
  if (rest.empty()) return "";
  if (!CommandAtEnd(rest).empty()) {
    return absl::StrCat("it stands behind ", CommandAtEnd(rest));
  }
  const char last = rest.back();
  if (last == kStop) return "a sign before it (√, ±, ≤ …) makes more of it";
  if (last == '<' || absl::EndsWith(rest, "<=") || absl::EndsWith(rest, ">=") ||
      (last == '>' && !EndsWithBracket(rest, apart))) {
    return "it is compared with something (<, >)";
  }
  if (last == '_' && rest.size() > 1 && IsAsciiDigit(rest[rest.size() - 2])) {
    return "it may be a part of a number with _";
  }
  if (last == '^' || last == '/') return "it may be an operand";
  if (last == '*') {
    absl::string_view left = rest;
    while (!left.empty() && left.back() == '*') left.remove_suffix(1);
    const bool bold = !apart && (left.empty() || IsSpace(left.back()));
    return !bold && EndsWithValue(WithoutSpaces(left)) ? "it may be an operand" : "";
  }
  if (last == '(' && IsNameLetter(LastOf(rest.substr(0, rest.size() - 1)))) {
    return "it may be the argument of a function";
  }
  if (last != '{') return "";
  const absl::string_view outside = rest.substr(0, rest.size() - 1);
  const absl::string_view command = CommandAtEnd(outside);
  const bool box = command == "\\boxed" || command == "\\fbox";
  const bool part =
      !command.empty() ? !box : !outside.empty() && absl::StrContains("^_}]", outside.back());
  return part ? "it is a part of an expression of LaTeX" : "";
}

// The same of what stands after it.
std::string JoinedAfter(absl::string_view after) {
  const char32_t first = FirstOf(after);
  if (IsNameLetter(first)) {
    size_t letters = 0;
    while (letters < after.size() &&
           absl::ascii_isalpha(static_cast<unsigned char>(after[letters]))) {
      ++letters;
    }
    const bool unit = letters > 1 || (letters == 1 && absl::StrContains(kUnitLetters, after[0]));
    return unit ? "" : "the letter behind it may be a variable, or stand for thousands";
  }
  if (first == '^') return "it has an exponent";
  if (first == '(') return "it may be a factor";
  if (first == '/' && after.size() > 1 &&
      (after[1] == '(' || after[1] == '\\' ||
       (IsNameLetter(FirstOf(after.substr(1))) &&
        (after.size() == 2 || !IsNameLetter(FirstOf(after.substr(2))))))) {
    return "it is divided by something";
  }
  absl::string_view next = after;
  while (!next.empty() && (next[0] == ' ' || next[0] == kGroup)) next.remove_prefix(1);
  if (next.empty()) return "";
  if (next[0] == '\\' && next.size() > 1 && !absl::StartsWith(next, "\\end{") &&
      absl::ascii_isalpha(static_cast<unsigned char>(next[1]))) {
    return "a command of LaTeX stands behind it";
  }
  if (next[0] == '+' || next[0] == kStop) return "it may be an operand";
  const bool times = next[0] == '*' && next.size() > 2 && next[1] != '*' &&
                     (IsNameLetter(FirstOf(next.substr(1))) || next[1] == ' ');
  return times ? "it may be an operand" : "";
}

// Whether `before` ends with a unit and "^", so that digits behind it are the unit's: "5 cm^2".
bool EndsWithUnitPower(absl::string_view before) {
  absl::ConsumeSuffix(&before, "{");
  if (!absl::ConsumeSuffix(&before, "^")) return false;
  before = WithoutSpaces(before);
  size_t letters = 0;
  while (letters < before.size() &&
         absl::ascii_isalpha(static_cast<unsigned char>(before[before.size() - 1 - letters]))) {
    ++letters;
  }
  return letters > 1 || (letters == 1 && (before.back() == 'm' || before.back() == 's'));
}

// Whether the digits after `before` belong to a name or a unit: "x2", "step_2", "cm^2".
bool IsInName(absl::string_view before) {
  if (EndsWithUnitPower(before)) return true;
  const char32_t last = LastOf(before);
  if (last == '_') {
    const char32_t joined = LastOf(before.substr(0, before.size() - 1));
    return IsNameLetter(joined) || joined == '}' || joined == ')';
  }
  return IsNameLetter(last) && CommandAtEnd(before).empty();
}

// Takes off what Markdown writes on both sides: **5**, `5`.
void TakeEmphasis(absl::string_view* before, absl::string_view* after) {
  while (!before->empty() && !after->empty() && before->back() == after->front() &&
         absl::StrContains("*_`", before->back())) {
    before->remove_suffix(1);
    after->remove_prefix(1);
  }
}

// A number as its surroundings make it.
NumberReading InPlace(absl::string_view text, const NumberSpan& span) {
  NumberReading reading = span.reading;
  if (reading.kind == Kind::kAmbiguous) return reading;
  absl::string_view before = text.substr(0, span.begin), after = text.substr(span.end);
  TakeEmphasis(&before, &after);
  const Sign sign = TakeSign(&before);
  TakeEmphasis(&before, &after);  // **-5**
  std::string why = sign.why;
  if (why.empty()) why = JoinedBefore(before);
  if (why.empty()) why = JoinedAfter(after);
  if (!why.empty()) {
    return Ambiguous(absl::StrCat("'", text.substr(span.begin, span.end - span.begin), "': ", why));
  }
  if (sign.negative) reading.value = Negative(reading.value);
  return reading;
}

// The last number of a text of PlainMarks; `count`: how many it has.
std::optional<NumberSpan> LastSpan(absl::string_view text, const NumberStyle& style,
                                   size_t* count) {
  std::optional<NumberSpan> last;
  NumberScanner scanner(text, style);
  while (std::optional<NumberSpan> span = scanner.Next()) {
    if (IsInName(text.substr(0, span->begin))) continue;
    last = std::move(span);
    ++*count;
  }
  return last;
}

// Braces and dollars around all of a text.
absl::string_view Unwrapped(absl::string_view text) {
  const auto trim = [](absl::string_view t) {
    while (!t.empty() && IsSpace(t.front())) t.remove_prefix(1);
    return WithoutSpaces(t);
  };
  text = trim(text);
  while (text.size() > 2 && text.front() == '{' && text.back() == '}' &&
         !absl::StrContains(text.substr(1, text.size() - 2), '{')) {
    text = trim(text.substr(1, text.size() - 2));
  }
  if (text.size() > 2 && text.front() == '$' && text.back() == '$') {
    text = trim(text.substr(1, text.size() - 2));
  }
  return text;
}

bool IsUnit(absl::string_view after) {
  return std::all_of(after.begin(), after.end(), [](char c) {
    return IsSpace(c) || absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           static_cast<unsigned char>(c) >= 0x80 || absl::StrContains(".$/^{})", c);
  });
}

// A text of PlainMarks that is one number, with "x =" before it or a unit behind it.
NumberReading WholeOf(absl::string_view text, const NumberStyle& style) {
  text = Unwrapped(text);
  if (const size_t equals = text.rfind('='); equals != absl::string_view::npos) {
    text = Unwrapped(text.substr(equals + 1));
  }
  size_t count = 0;
  const std::optional<NumberSpan> only = LastSpan(text, style, &count);
  if (!only.has_value()) return {};
  if (count == 1 && only->reading.kind == Kind::kAmbiguous) return only->reading;
  absl::string_view before = text.substr(0, only->begin);
  const Sign sign = TakeSign(&before);
  before = WithoutSpaces(before);
  const absl::string_view after = text.substr(only->end);
  const bool alone = before.empty() || (before == "(" && absl::EndsWith(after, ")"));
  if (count > 1 || !alone || !sign.why.empty() || !IsUnit(after)) {
    return Ambiguous(absl::StrCat("'", text.substr(0, 100), "' is not one number"));
  }
  return InPlace(text, *only);
}

}  // namespace

NumberReading ReadLastNumber(absl::string_view text, const NumberStyle& style) {
  const std::optional<Box> box = LastBox(text);
  if (!box.has_value()) {
    const std::string plain = PlainMarks(text);
    size_t count = 0;
    const std::optional<NumberSpan> last = LastSpan(plain, style, &count);
    return last.has_value() ? InPlace(plain, *last) : NumberReading();
  }
  if (!box->complete) return Ambiguous("\\boxed has no closing brace, or no braces at all");
  return WholeOf(PlainMarks(box->content), style);
}

NumberReading ReadWholeNumber(absl::string_view text, const NumberStyle& style) {
  const std::optional<Box> box = LastBox(text);
  if (box.has_value() && box->complete) return WholeOf(PlainMarks(box->content), style);
  return WholeOf(PlainMarks(text), style);
}

}  // namespace baton::reward
