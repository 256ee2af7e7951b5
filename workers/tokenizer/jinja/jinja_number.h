// Numbers and their texts, as Python reads and writes them. Internal to the Jinja renderer.
#ifndef BATON_WORKERS_TOKENIZER_JINJA_JINJA_NUMBER_H_
#define BATON_WORKERS_TOKENIZER_JINJA_JINJA_NUMBER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace baton::tokenizer::jinja {

/// Python's repr of a float: the shortest digits that read back to it.
std::string FloatRepr(double value);

/// int(text, base): white space around it, a sign, a prefix of the base, underscores between
/// digits, decimal digits of any script. Nothing for what is no integer or has a base that Python
/// does not take; throws (kLimit) on one beyond 64 bits.
std::optional<int64_t> ReadInteger(absl::string_view text, int64_t base);
/// float(text).
std::optional<double> ReadFloat(absl::string_view text);

/// The whole part; throws on infinity (kType) and beyond 64 bits (kLimit). Not for NaN.
int64_t Truncated(double value);

/// round(value, digits): to the nearest decimal, ties of the exact value to even.
double RoundFloat(double value, int64_t digits);
/// The same for an integer; digits below 0 round to tens, hundreds, ….
int64_t RoundInteger(int64_t value, int64_t digits);

}  // namespace baton::tokenizer::jinja

#endif  // BATON_WORKERS_TOKENIZER_JINJA_JINJA_NUMBER_H_
