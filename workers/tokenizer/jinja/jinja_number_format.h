// How a number is written with a width, a precision and a sign: what Python's `%` and format()
// have in common. Internal to the Jinja renderer.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_NUMBER_FORMAT_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_NUMBER_FORMAT_H_

#include <cstdint>
#include <string>

#include "workers/tokenizer/jinja/jinja_value.h"

namespace baton::tokenizer::jinja {

/// Most characters of a width, and most digits of a precision.
inline constexpr int64_t kMaxFormatWidth = int64_t{1} << 20;
inline constexpr int64_t kMaxFormatPrecision = 1000;

/// [[fill]align][sign][z][#][0][width][grouping][.precision][type], as format() reads it.
struct FormatSpec {
  std::string fill;               ///< One character; empty: the default.
  char align = '\0';              ///< < > ^ =; none given: 0.
  char sign = '\0';               ///< + - or a space; none given: 0.
  bool no_negative_zero = false;  ///< z: what is rounded to -0 loses its sign.
  bool alternate = false;
  bool zero = false;       ///< '0' stands before the width.
  int64_t width = -1;      ///< Below 0: none given.
  char grouping = '\0';    ///< , or _
  int64_t precision = -1;  ///< Below 0: none given.
  char type = '\0';
};

/// An integer's digits in base 2, 8, 10 or 16 (by the type b o d x X), without its sign.
std::string IntegerDigits(int64_t value, char type);
/// The digits of |value| by the type e E f F g G %, or 0 for the shortest that read back to it,
/// with at least `precision` digits where it is not below 0.
std::string FloatDigits(double value, char type, int64_t precision, bool alternate);
/// The digits in groups, filled up with zeros to `width` where that is more.
std::string Grouped(const std::string& digits, char separator, size_t group, size_t width);

/// format(value, spec) of an int, a bool or a float. Throws on a spec that the type has not.
std::string FormatNumber(const Value& value, const FormatSpec& spec);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_NUMBER_FORMAT_H_
