// Numbers as texts write them, without rounding.
#ifndef BATON_WORKERS_REWARD_NUMBERS_EXACT_NUMBER_H_
#define BATON_WORKERS_REWARD_NUMBERS_EXACT_NUMBER_H_

#include <boost/multiprecision/cpp_int.hpp>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace baton::reward {

/// `top` / `bottom`; `bottom` is above 0. Not reduced.
struct ExactNumber {
  boost::multiprecision::cpp_int top = 0;
  boost::multiprecision::cpp_int bottom = 1;
};

/// The number of `digits` ("0012", "1.50", ".5") times 10 to the `exponent`. Nothing where there
/// are more than 1,000 digits, or the exponent is beyond ±1,000: texts of a model must not cost
/// much.
std::optional<ExactNumber> ExactDecimal(absl::string_view digits, int64_t exponent);

ExactNumber Negative(ExactNumber number);
ExactNumber Sum(const ExactNumber& a, const ExactNumber& b);
/// Nothing where `by` is 0.
std::optional<ExactNumber> Quotient(const ExactNumber& number, const ExactNumber& by);

/// Whether |a - b| <= `tolerance`, which is finite, not below 0, and means the decimal number that
/// is written for it: 0.3 is 3/10.
bool AreNear(const ExactNumber& a, const ExactNumber& b, double tolerance);

}  // namespace baton::reward

#endif  // BATON_WORKERS_REWARD_NUMBERS_EXACT_NUMBER_H_
