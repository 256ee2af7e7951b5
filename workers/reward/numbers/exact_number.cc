#include "workers/reward/numbers/exact_number.h"

#include <charconv>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace baton::reward {
namespace {

using Int = boost::multiprecision::cpp_int;

constexpr size_t kMostDigits = 1000;
constexpr int64_t kMostExponent = 1000;

Int TenTo(int64_t exponent) {
  return boost::multiprecision::pow(Int(10), static_cast<unsigned>(exponent));
}

// A double as its shortest decimal text has it.
ExactNumber ShortestDecimal(double value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific);
  const absl::string_view all(text, static_cast<size_t>(end.ptr - text));
  const size_t e = all.find('e');
  int64_t exponent = 0;
  const absl::string_view written = all.substr(e + 1);
  if (!absl::SimpleAtoi(written[0] == '+' ? written.substr(1) : written, &exponent)) exponent = 0;
  return ExactDecimal(all.substr(0, e), exponent).value_or(ExactNumber());
}

}  // namespace

std::optional<ExactNumber> ExactDecimal(absl::string_view digits, int64_t exponent) {
  if (digits.size() > kMostDigits || exponent > kMostExponent || exponent < -kMostExponent) {
    return std::nullopt;
  }
  std::string whole;
  const size_t point = digits.find('.');
  for (const char c : digits) {
    if (absl::ascii_isdigit(static_cast<unsigned char>(c))) whole += c;
  }
  if (point != absl::string_view::npos) {
    exponent -= static_cast<int64_t>(digits.size() - point - 1);
  }
  // A leading 0 would make it octal.
  whole.erase(0, whole.find_first_not_of('0'));
  ExactNumber out;
  out.top = whole.empty() ? Int(0) : Int(whole);
  if (exponent >= 0) {
    out.top *= TenTo(exponent);
  } else {
    out.bottom = TenTo(-exponent);
  }
  return out;
}

ExactNumber Negative(ExactNumber number) {
  number.top = -number.top;
  return number;
}

ExactNumber Sum(const ExactNumber& a, const ExactNumber& b) {
  return {a.top * b.bottom + b.top * a.bottom, a.bottom * b.bottom};
}

std::optional<ExactNumber> Quotient(const ExactNumber& number, const ExactNumber& by) {
  if (by.top == 0) return std::nullopt;
  ExactNumber out = {number.top * by.bottom, number.bottom * by.top};
  if (out.bottom < 0) {
    out.top = -out.top;
    out.bottom = -out.bottom;
  }
  return out;
}

bool AreNear(const ExactNumber& a, const ExactNumber& b, double tolerance) {
  const ExactNumber limit = ShortestDecimal(tolerance);
  const ExactNumber off = Sum(a, Negative(b));
  return boost::multiprecision::abs(off.top) * limit.bottom <= limit.top * off.bottom;
}

}  // namespace baton::reward
