#include "workers/tokenizer/jinja/jinja_number_format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/jinja/jinja_budget.h"
#include "workers/tokenizer/jinja/jinja_number.h"

namespace baton::tokenizer::jinja {
namespace {

/// `value` by printf's %[#].PRECISION TYPE.
std::string Printed(double value, char type, int64_t precision, bool alternate) {
  const std::string pattern = absl::StrCat("%", alternate ? "#" : "", ".*", std::string(1, type));
  Budget::SpendWalk(64 + 4 * static_cast<uint64_t>(precision));
  const int digits = static_cast<int>(precision);
  const int size = std::snprintf(nullptr, 0, pattern.c_str(), digits, value);
  std::string out(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(out.data(), out.size(), pattern.c_str(), digits, value);
  out.pop_back();
  return out;
}

/// format(value, ".PRECISION") without a type: as g, but with ".0" where there is no point, and
/// with an exponent from `precision` digits on.
std::string GeneralDigits(double value, int64_t precision) {
  const int64_t digits = std::max<int64_t>(precision, 1);
  const std::string scientific = Printed(value, 'e', digits - 1, false);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  std::string out = Printed(value, 'g', digits, false);
  if (exponent == digits - 1) {
    // g writes no exponent for so many digits; this form does.
    std::string mantissa = scientific.substr(0, scientific.find('e'));
    if (mantissa.find('.') != std::string::npos) {
      mantissa.erase(mantissa.find_last_not_of('0') + 1);
      if (mantissa.back() == '.') mantissa.pop_back();
    }
    return absl::StrCat(mantissa, scientific.substr(scientific.find('e')));
  }
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

size_t CharactersOf(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

/// `digits` after `lead` (the sign and the prefix), aligned.
std::string Aligned(const std::string& lead, const std::string& digits, const FormatSpec& spec) {
  const std::string fill = !spec.fill.empty() ? spec.fill : spec.zero ? "0" : " ";
  const char align = spec.align != '\0' ? spec.align : spec.zero ? '=' : '>';
  const size_t size = lead.size() + CharactersOf(digits);
  const size_t width = spec.width < 0 ? 0 : static_cast<size_t>(spec.width);
  const size_t missing = width > size ? width - size : 0;
  Budget::SpendText(0, missing * fill.size());
  const size_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string before, after;
  for (size_t i = 0; i < left; ++i) before += fill;
  for (size_t i = left; i < missing; ++i) after += fill;
  return align == '=' ? absl::StrCat(lead, before, digits)
                      : absl::StrCat(before, lead, digits, after);
}

std::string SignOf(bool negative, char sign) {
  return negative ? "-" : sign == '+' ? "+" : sign == ' ' ? " " : "";
}

/// The zeros that fill up a grouped number have separators too.
size_t WidthOfZeros(const FormatSpec& spec, const std::string& lead) {
  const bool zeros =
      (spec.zero && spec.fill.empty() && (spec.align == '\0' || spec.align == '=')) ||
      (spec.fill == "0" && spec.align == '=');
  if (!zeros || spec.width < 0 || static_cast<size_t>(spec.width) < lead.size()) return 0;
  return static_cast<size_t>(spec.width) - lead.size();
}

std::string FormatInteger(int64_t value, const FormatSpec& spec) {
  const char type = spec.type == '\0' || spec.type == 'n' ? 'd' : spec.type;
  if (spec.precision >= 0) Refuse("the format of an integer has a precision");
  if (spec.no_negative_zero) Refuse("the format of an integer has a z");
  if (type == 'c') {
    if (spec.sign != '\0' || spec.alternate || spec.grouping != '\0') {
      Refuse("the format c has a sign, # or a grouping");
    }
    if (value < 0 || value > 0x10FFFF) Refuse("the format c needs a character's number");
    if (value >= 0xD800 && value < 0xE000) Refuse("a surrogate is no character");
    std::string character;
    AppendUtf8(static_cast<char32_t>(value), &character);
    FormatSpec as_text = spec;
    if (as_text.align == '\0' && !as_text.zero) as_text.align = '<';
    return Aligned("", character, as_text);
  }
  if (spec.grouping == ',' && type != 'd') Refuse("',' groups decimal digits alone");
  if (spec.grouping != '\0' && spec.type == 'n') Refuse("the format n has a grouping");
  std::string lead = SignOf(value < 0, spec.sign);
  if (spec.alternate && type != 'd') lead += absl::StrCat("0", std::string(1, type));
  std::string digits = IntegerDigits(value, type);
  if (spec.grouping != '\0') {
    digits = Grouped(digits, spec.grouping, type == 'd' ? 3 : 4, WidthOfZeros(spec, lead));
  }
  return Aligned(lead, digits, spec);
}

/// Whether the digits of a float are all 0.
bool IsZero(absl::string_view digits) {
  const absl::string_view mantissa = digits.substr(0, digits.find_first_of("eE"));
  return absl::ascii_isdigit(static_cast<unsigned char>(digits[0])) &&
         mantissa.find_first_of("123456789") == absl::string_view::npos;
}

std::string FormatFloat(double value, const FormatSpec& spec) {
  const char type = spec.type == 'n' ? 'g' : spec.type;
  if (spec.grouping != '\0' && spec.type == 'n') Refuse("the format n has a grouping");
  std::string digits = FloatDigits(value, type, spec.precision, spec.alternate);
  const bool loses_sign = spec.no_negative_zero && IsZero(digits);
  const std::string lead =
      SignOf(std::signbit(value) && !std::isnan(value) && !loses_sign, spec.sign);
  if (spec.grouping != '\0' && std::isfinite(value)) {
    const size_t whole = std::min(digits.find_first_of(".eE%"), digits.size());
    const std::string rest = digits.substr(whole);
    const size_t width = WidthOfZeros(spec, lead);
    digits = Grouped(digits.substr(0, whole), spec.grouping, 3,
                     width > rest.size() ? width - rest.size() : 0) +
             rest;
  }
  return Aligned(lead, digits, spec);
}

}  // namespace

std::string IntegerDigits(int64_t value, char type) {
  const uint64_t size = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  if (type == 'x') return absl::StrFormat("%x", size);
  if (type == 'X') return absl::StrFormat("%X", size);
  if (type == 'o') return absl::StrFormat("%o", size);
  if (type != 'b') return absl::StrCat(size);
  std::string bits;
  for (uint64_t rest = size; rest > 0 || bits.empty(); rest /= 2) bits += rest % 2 == 1 ? '1' : '0';
  std::reverse(bits.begin(), bits.end());
  return bits;
}

std::string FloatDigits(double value, char type, int64_t precision, bool alternate) {
  const bool upper = type == 'E' || type == 'F' || type == 'G';
  const double size = std::abs(value) * (type == '%' ? 100 : 1);
  const std::string suffix = type == '%' ? "%" : "";
  if (!std::isfinite(size)) {
    const std::string name = std::isnan(size) ? "nan" : "inf";
    return (upper ? absl::AsciiStrToUpper(name) : name) + suffix;
  }
  if (type == '\0') return precision < 0 ? FloatRepr(size) : GeneralDigits(size, precision);
  if (precision < 0) precision = 6;
  if ((type == 'g' || type == 'G') && precision == 0) precision = 1;
  return Printed(size, type == '%' ? 'f' : type, precision, alternate) + suffix;
}

std::string Grouped(const std::string& digits, char separator, size_t group, size_t width) {
  std::string out;  // from the right
  size_t taken = 0;
  for (size_t i = digits.size(); i > 0 || out.size() < width; ++taken) {
    if (taken > 0 && taken % group == 0) {
      out += separator;
    }
    out += i > 0 ? digits[--i] : '0';
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::string FormatNumber(const Value& value, const FormatSpec& spec) {
  const absl::string_view types = "eEfFgG%";
  const bool as_float = value.is(Value::Kind::kFloat) ||
                        (spec.type != '\0' && types.find(spec.type) != absl::string_view::npos);
  if (as_float) {
    if (spec.type != '\0' && spec.type != 'n' && types.find(spec.type) == absl::string_view::npos) {
      Refuse(absl::StrCat("a float has no format '", std::string(1, spec.type), "'"));
    }
    return FormatFloat(value.number("format"), spec);
  }
  if (spec.type != '\0' &&
      absl::string_view("bcdoxXn").find(spec.type) == absl::string_view::npos) {
    Refuse(absl::StrCat("an integer has no format '", std::string(1, spec.type), "'"));
  }
  return FormatInteger(value.integer("format"), spec);
}

}  // namespace baton::tokenizer::jinja
