#include "sdk/cli/shared/lifetime.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace baton::cli {

absl::StatusOr<int64_t> ParseLifetime(const std::string& option, const std::string& text) {
  int64_t number = 0;
  int64_t unit = 0;
  if (!text.empty()) {
    unit = text.back() == 'd' ? 86400 : text.back() == 'h' ? 3600 : text.back() == 'm' ? 60 : 0;
  }
  if (unit == 0 || !absl::SimpleAtoi(text.substr(0, text.size() - 1), &number) || number <= 0 ||
      number > 36500 * int64_t{86400} / unit) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " ", text, ": give minutes, hours or days, e.g. 90m, 12h or 30d"));
  }
  return number * unit;
}

}  // namespace baton::cli
