#include "sdk/base/options.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton {
namespace {

std::string Show(const OptionValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const double* number = std::get_if<double>(&value)) return absl::StrCat(*number);
  return absl::StrCat("'", std::get<std::string>(value), "'");
}

}  // namespace

absl::Status ToStatus(absl::Span<const OptionProblem> problems) {
  if (problems.empty()) return absl::OkStatus();
  std::vector<std::string> lines;
  for (const OptionProblem& p : problems) {
    lines.push_back(p.option.empty() ? p.message : absl::StrCat(p.option, ": ", p.message));
  }
  return absl::InvalidArgumentError(absl::StrJoin(lines, "; "));
}

std::string CheckFlag(const OptionValue& value) {
  if (std::holds_alternative<bool>(value)) return "";
  return absl::StrCat(Show(value), " is neither true nor false");
}

std::string CheckNumber(const OptionValue& value, const Bounds& bounds) {
  const double* number = std::get_if<double>(&value);
  if (number == nullptr) return absl::StrCat(Show(value), " is not a number");
  if (!std::isfinite(*number)) return absl::StrCat(*number, " is not a finite number");
  const bool low = bounds.above_low ? *number > bounds.low : *number >= bounds.low;
  if (low && *number <= bounds.high) return "";
  if (std::isinf(bounds.high)) {
    return absl::StrCat(*number, bounds.above_low ? " is not above " : " is not at least ",
                        bounds.low);
  }
  return absl::StrCat(*number, " is not in ", bounds.above_low ? "(" : "[", bounds.low, ", ",
                      bounds.high, "]");
}

std::string CheckText(const OptionValue& value, absl::Span<const absl::string_view> choices) {
  const std::string* text = std::get_if<std::string>(&value);
  if (text == nullptr) return absl::StrCat(Show(value), " is not a text");
  if (choices.empty()) return text->empty() ? "is empty; name something" : "";
  if (std::count(choices.begin(), choices.end(), absl::string_view(*text)) > 0) return "";
  return absl::StrCat(Show(value), " is none of ", absl::StrJoin(choices, ", "));
}

std::string UnknownOption(absl::string_view user, std::vector<absl::string_view> known) {
  std::sort(known.begin(), known.end());
  return absl::StrCat(user, " has no such option; it has ",
                      known.empty() ? "none" : absl::StrJoin(known, ", "));
}

}  // namespace baton
