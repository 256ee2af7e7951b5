#include "workers/tokenizer/jinja/jinja_number.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "sdk/common/base/utf8.h"
#include "workers/tokenizer/jinja/jinja_error.h"
#include "workers/tokenizer/jinja/jinja_text.h"

namespace baton::tokenizer::jinja {
namespace {

/// `text` without the white space around it, its decimal digits those of ASCII.
std::string AsciiNumber(absl::string_view text) {
  const RenderedText stripped = Strip(RenderedText(text), Side::kBoth);
  std::string out;
  for (const TextRange& range : Characters(stripped.text())) {
    const absl::string_view character =
        absl::string_view(stripped.text()).substr(range.begin, range.end - range.begin);
    const Utf8Char read = ReadUtf8(character);
    const int32_t digit =
        read.length > 1 ? u_charDigitValue(static_cast<UChar32>(read.code_point)) : -1;
    if (digit >= 0) {
      out += static_cast<char>('0' + digit);
    } else {
      out.append(character.data(), character.size());
    }
  }
  return out;
}

/// Takes out underscores that stand between two digits; false when one stands elsewhere.
bool TakeOutUnderscores(std::string* text) {
  std::string out;
  for (size_t i = 0; i < text->size(); ++i) {
    const auto is_digit = [&](size_t at) {
      return at < text->size() && absl::ascii_isxdigit(static_cast<unsigned char>((*text)[at]));
    };
    if ((*text)[i] != '_') {
      out += (*text)[i];
    } else if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) {
      return false;
    }
  }
  *text = out;
  return true;
}

/// The base of "0x", "0o" or "0b" at the beginning of `digits`, or 0.
int64_t BaseOfPrefix(absl::string_view digits) {
  if (digits.size() < 2 || digits[0] != '0') return 0;
  const char letter = absl::ascii_tolower(static_cast<unsigned char>(digits[1]));
  return letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
}

/// Whether the text is digits, with a point or an exponent, as float() reads it.
bool IsFloatText(absl::string_view text) {
  size_t at = 0, digits = 0;
  const auto take_digits = [&] {
    const size_t begin = at;
    while (at < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[at]))) ++at;
    return at - begin;
  };
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
  digits = take_digits();
  if (at < text.size() && text[at] == '.') {
    ++at;
    digits += take_digits();
  }
  if (digits == 0) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    if (take_digits() == 0) return false;
  }
  return at == text.size();
}

}  // namespace

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

std::optional<int64_t> ReadInteger(absl::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  std::string digits = AsciiNumber(text);
  bool negative = false;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    negative = digits[0] == '-';
    digits.erase(0, 1);
  }
  const int64_t prefix = BaseOfPrefix(digits);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    digits.erase(0, digits.size() > 2 && digits[2] == '_' ? 3 : 2);
    base = prefix;
  } else if (base == 0) {
    base = 10;
    const bool zero = digits.find_first_not_of("0_") == std::string::npos;
    if (digits.size() > 1 && digits[0] == '0' && !zero) return std::nullopt;
  }
  if (digits.empty() || !TakeOutUnderscores(&digits)) return std::nullopt;
  bool overflow = false;
  int64_t value = 0;
  for (const char c : digits) {
    const auto letter = absl::ascii_tolower(static_cast<unsigned char>(c));
    const int64_t digit = absl::ascii_isdigit(letter)   ? letter - '0'
                          : absl::ascii_isalpha(letter) ? letter - 'a' + 10
                                                        : 36;
    if (digit >= base) return std::nullopt;
    overflow = overflow || __builtin_mul_overflow(value, base, &value) ||
               __builtin_add_overflow(value, negative ? -digit : digit, &value);
  }
  if (overflow) throw Error{Error::Kind::kLimit, "an integer is too large"};
  return value;
}

std::optional<double> ReadFloat(absl::string_view text) {
  std::string number = AsciiNumber(text);
  if (!TakeOutUnderscores(&number)) return std::nullopt;
  if (IsFloatText(number)) return std::strtod(number.c_str(), nullptr);
  const bool signed_text = !number.empty() && (number[0] == '-' || number[0] == '+');
  const double sign = signed_text && number[0] == '-' ? -1 : 1;
  const std::string name = absl::AsciiStrToLower(number.substr(signed_text ? 1 : 0));
  if (name == "inf" || name == "infinity") return sign * INFINITY;
  if (name == "nan") return NAN;
  return std::nullopt;
}

int64_t Truncated(double value) {
  if (std::isinf(value)) throw Error{Error::Kind::kType, "infinity is no integer"};
  const double whole = std::trunc(value);
  if (whole < -9223372036854775808.0 || whole >= 9223372036854775808.0) {
    throw Error{Error::Kind::kLimit, "an integer is too large"};
  }
  return static_cast<int64_t>(whole);
}

double RoundFloat(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 323) return value;
  if (digits < -308) return std::copysign(0.0, value);
  if (digits >= 0) {
    // printf rounds the exact value, ties to even.
    return std::strtod(absl::StrFormat("%.*f", static_cast<int>(digits), value).c_str(), nullptr);
  }
  // The integer part's digits, with a mark that there is more than it.
  std::string whole = absl::StrFormat("%.0f", std::trunc(std::abs(value)));
  const bool more = std::trunc(value) != value;
  const auto cut = static_cast<size_t>(-digits);
  if (whole.size() < cut) return std::copysign(0.0, value);
  std::string kept = "0" + whole.substr(0, whole.size() - cut);
  const std::string rest = whole.substr(whole.size() - cut);
  const std::string half = "5" + std::string(cut - 1, '0');
  const bool odd = (kept.back() - '0') % 2 == 1;
  if (rest > half || (rest == half && (more || odd))) {
    size_t at = kept.size() - 1;
    while (kept[at] == '9') kept[at--] = '0';
    ++kept[at];
  }
  return std::copysign(std::strtod((kept + std::string(cut, '0')).c_str(), nullptr), value);
}

int64_t RoundInteger(int64_t value, int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -18) return 0;
  int64_t unit = 1;
  for (int64_t i = digits; i < 0; ++i) unit *= 10;
  const int64_t rest = ((value % unit) + unit) % unit, half = unit / 2;
  const __int128 floor = static_cast<__int128>(value) - rest;
  const bool up = rest > half || (rest == half && (floor / unit) % 2 != 0);
  const __int128 result = floor + (up ? unit : 0);
  if (result < INT64_MIN || result > INT64_MAX) {
    throw Error{Error::Kind::kLimit, "an integer is too large"};
  }
  return static_cast<int64_t>(result);
}

}  // namespace baton::tokenizer::jinja
