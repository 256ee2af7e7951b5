#include "sdk/common/schema/options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace baton {
namespace {

std::string Show(const OptionValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const double* number = std::get_if<double>(&value)) return NumberText(*number);
  return absl::StrCat("'", std::get<std::string>(value), "'");
}

std::string CheckFlag(const OptionValue& value) {
  if (std::holds_alternative<bool>(value)) return "";
  return absl::StrCat(Show(value), " is neither true nor false");
}

std::string CheckNumber(const OptionValue& value, const Bounds& bounds) {
  const double* number = std::get_if<double>(&value);
  if (number == nullptr) return absl::StrCat(Show(value), " is not a number");
  return NumberProblem(*number, bounds);
}

std::string CheckText(const OptionValue& value, absl::Span<const absl::string_view> choices) {
  const std::string* text = std::get_if<std::string>(&value);
  if (text == nullptr) return absl::StrCat(Show(value), " is not a text");
  if (choices.empty()) return text->empty() ? "is empty; name something" : "";
  if (std::count(choices.begin(), choices.end(), absl::string_view(*text)) > 0) return "";
  return absl::StrCat(Show(value), " is not one of: ", absl::StrJoin(choices, ", "));
}

Limits Within(const Bounds& bounds) {
  Limits limits;
  limits.bounds = bounds;
  return limits;
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

Limits Anything() { return Limits(); }
Limits Between(double low, double high) { return Within({low, high}); }
Limits AtLeast(double low) { return Within({low}); }
Limits Above(double low) { return Within({low, Bounds().high, true}); }
Limits OneOf(std::vector<absl::string_view> choices) {
  Limits limits;
  limits.choices = std::move(choices);
  return limits;
}

std::string CheckValue(const OptionValue& like, const OptionValue& value, const Bounds& bounds,
                       absl::Span<const absl::string_view> choices) {
  if (std::holds_alternative<bool>(like)) return CheckFlag(value);
  if (std::holds_alternative<double>(like)) return CheckNumber(value, bounds);
  return CheckText(value, choices);
}

std::string UnknownOption(absl::string_view user, std::vector<absl::string_view> known) {
  std::sort(known.begin(), known.end());
  return absl::StrCat(user, " has no such option; it has ",
                      known.empty() ? "none" : absl::StrJoin(known, ", "));
}

}  // namespace baton
