#include "controller/status/request_target.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "sdk/common/base/status_macros.h"
#include "sdk/common/base/utf8.h"

namespace baton::status {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

absl::StatusOr<std::string> Unescape(absl::string_view text, bool plus_is_space) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '+' && plus_is_space) c = ' ';
    if (c == '%') {
      const int high = i + 1 < text.size() ? HexDigit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return absl::InvalidArgumentError("a % in the address is not followed by two hex digits");
      }
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return absl::InvalidArgumentError("the address has a control character");
    }
    out.push_back(c);
  }
  if (!IsValidUtf8(out)) return absl::InvalidArgumentError("the address is not UTF-8");
  return out;
}

}  // namespace

absl::StatusOr<RequestTarget> RequestTarget::Parse(absl::string_view target) {
  if (target.empty() || target[0] != '/') {
    return absl::InvalidArgumentError("the address must begin with /");
  }
  target = target.substr(0, target.find('#'));
  RequestTarget out;
  const size_t mark = target.find('?');
  for (absl::string_view part : absl::StrSplit(target.substr(0, mark), '/', absl::SkipEmpty())) {
    BATON_ASSIGN_OR_RETURN(std::string segment, Unescape(part, /*plus_is_space=*/false));
    out.path.push_back(std::move(segment));
  }
  if (mark == absl::string_view::npos) return out;
  for (absl::string_view part : absl::StrSplit(target.substr(mark + 1), '&', absl::SkipEmpty())) {
    const size_t equal = part.find('=');
    const absl::string_view raw =
        equal == absl::string_view::npos ? absl::string_view() : part.substr(equal + 1);
    BATON_ASSIGN_OR_RETURN(std::string name, Unescape(part.substr(0, equal), true));
    BATON_ASSIGN_OR_RETURN(out.query[name], Unescape(raw, true));
  }
  return out;
}

std::string RequestTarget::Text(const std::string& name) const {
  auto it = query.find(name);
  return it == query.end() ? std::string() : it->second;
}

absl::StatusOr<int64_t> RequestTarget::Number(const std::string& name, int64_t min, int64_t max,
                                              int64_t fallback) const {
  auto it = query.find(name);
  if (it == query.end()) return fallback;
  int64_t value = 0;
  if (!absl::SimpleAtoi(it->second, &value) || value < min || value > max) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", it->second, " is not a whole number in [", min, ", ", max, "]"));
  }
  return value;
}

}  // namespace baton::status
