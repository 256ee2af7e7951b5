#include "workers/reward/numbers/number_scanner.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "workers/reward/numbers/number_marks.h"

namespace baton::reward {
namespace {

constexpr absl::string_view kFrac = "\\frac";
constexpr size_t kShown = 40;  // bytes of a text in a reason

bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

// For people: a piece of a text of PlainMarks.
std::string Shown(absl::string_view text) {
  std::string out =
      absl::StrReplaceAll(text.substr(0, kShown), {{"\x01", "–"}, {"\x02", " "}, {"\x03", "…"}});
  return absl::StrCat("'", out, "'");
}

}  // namespace

bool NumberScanner::DigitAt(size_t i) const { return IsDigit(At(i)); }

size_t NumberScanner::SkipSpaces(size_t i) const {
  while (At(i) == ' ' || At(i) == kGroup) ++i;
  return i;
}

// Whether a number begins at i: digits, ".5", or a fraction of LaTeX. "No.5" has the number 5.
bool NumberScanner::Begins(size_t i) const {
  const bool behind_word = i > 0 && absl::ascii_isalpha(static_cast<unsigned char>(text_[i - 1]));
  return DigitAt(i) || (At(i) == '.' && DigitAt(i + 1) && !behind_word) ||
         absl::StartsWith(text_.substr(i), kFrac);
}

std::nullopt_t NumberScanner::Ambiguous(NumberSpan* span, absl::string_view why) {
  // What else belongs to it is no number of its own.
  const auto joins = [](char c) { return absl::StrContains(",.:/-'\x01", c); };
  while (DigitAt(at_) || (at_ < text_.size() && joins(text_[at_]) && DigitAt(at_ + 1))) ++at_;
  span->end = at_;
  span->reading.kind = NumberReading::Kind::kAmbiguous;
  span->reading.why = absl::StrCat(Shown(text_.substr(span->begin, at_ - span->begin)), " ", why);
  return std::nullopt;
}

std::optional<NumberSpan> NumberScanner::Next() {
  while (at_ < text_.size() && !Begins(at_)) ++at_;
  if (at_ >= text_.size()) return std::nullopt;
  NumberSpan span;
  span.begin = at_;
  Take(&span);
  span.end = std::max(at_, span.begin + 1);
  at_ = span.end;
  return span;
}

void NumberScanner::Take(NumberSpan* span) {
  const std::optional<ExactNumber> value = TakeQuantity(span);
  if (!value.has_value()) return;
  span->reading.kind = NumberReading::Kind::kNumber;
  span->reading.value = *value;
  TakePercent(span, &span->reading.value);
  TakeRange(span);
}

// A number, with a fraction or a power of ten.
std::optional<ExactNumber> NumberScanner::TakeQuantity(NumberSpan* span) {
  if (absl::StartsWith(text_.substr(at_), kFrac)) return TakeFraction(span);
  std::optional<Decimal> decimal = TakeDecimal(span);
  if (!decimal.has_value() || !TakeExponent(span, &*decimal)) return std::nullopt;
  const size_t next = SkipSpaces(at_);
  const bool fraction_follows = absl::StartsWith(text_.substr(next), kFrac);
  const bool number_follows = next > at_ && DigitAt(next);
  if (fraction_follows) return TakeMixed(*decimal, span);
  if (number_follows) {
    // "3 1/2" is one number; "3 12" are two.
    size_t slash = next;
    while (DigitAt(slash)) ++slash;
    if (At(slash) == '/' && DigitAt(slash + 1)) return TakeMixed(*decimal, span);
    if (decimal->whole && decimal->digits.size() <= 3 && next == at_ + 1 && slash == next + 3) {
      at_ = slash;
      return Ambiguous(span, "may be one number or two; write thousands with commas");
    }
    return decimal->value;
  }
  if (At(next) != '/' || !DigitAt(SkipSpaces(next + 1))) return decimal->value;
  at_ = SkipSpaces(next + 1);
  const std::optional<Decimal> below = TakeDecimal(span);
  if (!below.has_value()) return std::nullopt;
  if (At(at_) == '/' && DigitAt(at_ + 1)) return Ambiguous(span, "may be a date");
  std::optional<ExactNumber> value = Quotient(decimal->value, below->value);
  return value.has_value() ? value : Ambiguous(span, "divides by 0");
}

// A whole number and a proper fraction: 3 1/2.
std::optional<ExactNumber> NumberScanner::TakeMixed(const Decimal& whole, NumberSpan* span) {
  at_ = SkipSpaces(at_);
  std::optional<ExactNumber> part;
  if (absl::StartsWith(text_.substr(at_), kFrac)) {
    part = TakeFraction(span);
  } else {
    const std::optional<Decimal> above = TakeDecimal(span);
    ++at_;  // the slash
    const std::optional<Decimal> below = above.has_value() ? TakeDecimal(span) : std::nullopt;
    if (!below.has_value()) return std::nullopt;
    if (above->whole && below->whole) part = Quotient(above->value, below->value);
    if (At(at_) == '/' && DigitAt(at_ + 1)) part.reset();
  }
  if (span->reading.kind == NumberReading::Kind::kAmbiguous) return std::nullopt;
  if (!whole.whole || !part.has_value() || part->top <= 0 || part->top >= part->bottom) {
    return Ambiguous(span, "may be a product or several numbers");
  }
  return Sum(whole.value, *part);
}

// Digits with separators of thousands; or ".5", of which it takes nothing.
std::optional<std::string> NumberScanner::TakeDigits(NumberSpan* span) {
  std::string digits;
  while (DigitAt(at_)) digits += text_[at_++];
  const auto group_at = [this](size_t i) {
    return DigitAt(i) && DigitAt(i + 1) && DigitAt(i + 2) && !DigitAt(i + 3);
  };
  const char separator = At(at_);
  if ((separator != ',' && separator != kGroup) || !DigitAt(at_ + 1)) return digits;
  if (separator == kGroup && !group_at(at_ + 1)) return digits;  // a space between two numbers
  if (digits.size() > 3) {
    Ambiguous(span, "has a comma that separates no thousands");
    return std::nullopt;
  }
  while (At(at_) == separator && DigitAt(at_ + 1)) {
    if (digits.empty() || !group_at(at_ + 1)) {
      Ambiguous(span, "may have a decimal comma, or be several numbers");
      return std::nullopt;
    }
    absl::StrAppend(&digits, text_.substr(at_ + 1, 3));
    at_ += 4;
  }
  return digits;
}

std::optional<NumberScanner::Decimal> NumberScanner::TakeDecimal(NumberSpan* span) {
  std::optional<std::string> digits = TakeDigits(span);
  if (!digits.has_value()) return std::nullopt;
  Decimal out;
  out.whole = true;
  out.digits = *std::move(digits);
  if (At(at_) == '.' && DigitAt(at_ + 1)) {
    out.whole = false;
    out.digits += text_[at_++];
    while (DigitAt(at_)) out.digits += text_[at_++];
  }
  const char next = At(at_);
  if ((next == ',' || next == '.' || next == ':' || next == '\'') && DigitAt(at_ + 1)) {
    return Ambiguous(span, next == ':' ? "may be a time or a ratio"
                                       : "may have a decimal comma, or be several numbers");
  }
  const std::optional<ExactNumber> value = ExactDecimal(out.digits, 0);
  if (!value.has_value()) return Ambiguous(span, "has too many digits");
  out.value = *value;
  return out;
}

// "e3", "*10^3", "*10^{3}"; and "10^3" itself.
bool NumberScanner::TakeExponent(NumberSpan* span, Decimal* decimal) {
  size_t power = std::string::npos;  // where the exponent begins
  bool itself = false;
  const size_t times = SkipSpaces(at_);
  if ((At(at_) == 'e' || At(at_) == 'E') &&
      (DigitAt(at_ + 1) || ((At(at_ + 1) == '-' || At(at_ + 1) == '+') && DigitAt(at_ + 2)))) {
    power = at_ + 1;
  } else if (decimal->digits == "10" && At(at_) == '^') {
    power = at_ + 1;
    itself = true;
  } else if (At(times) == '*' && absl::StartsWith(text_.substr(SkipSpaces(times + 1)), "10^")) {
    power = SkipSpaces(times + 1) + 3;
  }
  if (power == std::string::npos) return true;
  const bool braces = At(power) == '{';
  const size_t begin = power + (braces ? 1 : 0);
  size_t end = begin + (At(begin) == '-' || At(begin) == '+' ? 1 : 0);
  while (DigitAt(end)) ++end;
  int64_t exponent = 0;
  absl::string_view written = text_.substr(begin, end - begin);
  absl::ConsumePrefix(&written, "+");
  const bool read = absl::SimpleAtoi(written, &exponent) && (!braces || At(end) == '}');
  at_ = end + (read && braces ? 1 : 0);
  std::optional<ExactNumber> value;
  if (read) value = ExactDecimal(itself ? "1" : decimal->digits, exponent);
  if (!value.has_value()) {
    Ambiguous(span, "has an exponent that is no whole number within ±1000");
    return false;
  }
  decimal->value = *value;
  decimal->whole = false;
  return true;
}

// \frac{1}{2}, \frac12.
std::optional<ExactNumber> NumberScanner::TakeFraction(NumberSpan* span) {
  at_ += kFrac.size();
  const std::optional<ExactNumber> above = TakeFractionPart();
  const std::optional<ExactNumber> below = above.has_value() ? TakeFractionPart() : std::nullopt;
  if (!below.has_value()) return Ambiguous(span, "is no fraction of two numbers");
  std::optional<ExactNumber> value = Quotient(*above, *below);
  return value.has_value() ? value : Ambiguous(span, "divides by 0");
}

// One argument of \frac: a digit, or a decimal number in braces.
std::optional<ExactNumber> NumberScanner::TakeFractionPart() {
  at_ = SkipSpaces(at_);
  if (DigitAt(at_)) return ExactDecimal(text_.substr(at_++, 1), 0);
  if (At(at_) != '{') return std::nullopt;
  at_ = SkipSpaces(at_ + 1);
  const bool negative = At(at_) == '-';
  if (negative) ++at_;
  NumberSpan inner;
  inner.begin = at_;
  if (!DigitAt(at_) && At(at_) != '.') return std::nullopt;
  const std::optional<Decimal> decimal = TakeDecimal(&inner);
  at_ = SkipSpaces(at_);
  if (!decimal.has_value() || At(at_) != '}') return std::nullopt;
  ++at_;
  return negative ? Negative(decimal->value) : decimal->value;
}

// "%", "percent", "per cent".
void NumberScanner::TakePercent(NumberSpan* span, ExactNumber* value) {
  const size_t begin = SkipSpaces(at_);
  for (const absl::string_view sign : {"%", "percent", "per cent"}) {
    if (!absl::StartsWithIgnoreCase(text_.substr(begin), sign)) continue;
    const size_t end = begin + sign.size();
    if (sign != "%" && absl::ascii_isalpha(static_cast<unsigned char>(At(end)))) continue;
    at_ = end;
    span->reading.percent = true;
    if (style_.percent_is_hundredths) value->bottom *= 100;
    return;
  }
}

// "10-12": two numbers with a dash between them.
bool NumberScanner::TakeRange(NumberSpan* span) {
  const size_t dash = SkipSpaces(at_);
  const bool minus = At(dash) == '-';
  if (!minus && At(dash) != kDash) return true;
  size_t next = dash + 1;
  while (minus && At(next) == '-') ++next;  // LaTeX: --
  const size_t behind = next;
  next = SkipSpaces(next);
  const bool apart = next > behind;
  while (At(next) == '$') next = SkipSpaces(next + 1);
  if (!Begins(next)) return true;
  if (minus && (dash > at_) != apart) return true;  // "5 -3": it may be a sign
  const bool spaced = minus && dash > at_;
  const ExactNumber lower = span->reading.value;
  const bool percent = span->reading.percent;
  at_ = next;
  std::optional<ExactNumber> upper = TakeQuantity(span);
  if (!upper.has_value()) return false;
  TakePercent(span, &*upper);
  if (spaced) return Ambiguous(span, "may be a range or a difference"), false;
  if ((At(at_) == '-' || At(at_) == kDash) && DigitAt(at_ + 1)) {
    return Ambiguous(span, "may be a date"), false;
  }
  if (!percent && span->reading.percent && style_.percent_is_hundredths) {
    span->reading.value = lower;
    span->reading.value.bottom *= 100;  // "10-12%"
  }
  span->reading.kind = NumberReading::Kind::kRange;
  span->reading.upper = *upper;
  return true;
}

}  // namespace baton::reward
