#include "sdk/common/base/bounds.h"

#include <charconv>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace baton {
namespace {

constexpr double kMostExactWhole = 9007199254740992;  // 2^53

bool IsAboveLow(double number, const Bounds& bounds) {
  return bounds.above_low ? number > bounds.low : number >= bounds.low;
}

}  // namespace

std::string NumberText(double number) {
  const bool whole = std::nearbyint(number) == number && std::abs(number) <= kMostExactWhole;
  if (whole) return absl::StrCat(static_cast<int64_t>(number));
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
  return absl::StrReplaceAll(std::string(text, end), {{"e-0", "e-"}, {"e+0", "e+"}});
}

std::string NumberProblem(double number, const Bounds& bounds) {
  const std::string text = NumberText(number);
  if (!std::isfinite(number)) return absl::StrCat(text, " is not a finite number");
  if (IsAboveLow(number, bounds) && number <= bounds.high) return "";
  const std::string low = NumberText(bounds.low), high = NumberText(bounds.high);
  if (std::isinf(bounds.low)) return absl::StrCat(text, " is not at most ", high);
  if (std::isinf(bounds.high)) {
    return absl::StrCat(text, bounds.above_low ? " is not above " : " is not at least ", low);
  }
  return absl::StrCat(text, " is not in ", bounds.above_low ? "(" : "[", low, ", ", high, "]");
}

std::string BoundsText(const Bounds& bounds) {
  const std::string low = NumberText(bounds.low), high = NumberText(bounds.high);
  if (std::isinf(bounds.low)) return std::isinf(bounds.high) ? "" : absl::StrCat("at most ", high);
  if (!std::isinf(bounds.high)) return absl::StrCat(low, " to ", high);
  return absl::StrCat(bounds.above_low ? "above " : "at least ", low);
}

}  // namespace baton
