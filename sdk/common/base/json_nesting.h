// How deeply the values of a JSON text are nested. Copies, comparisons and Json::dump recurse, so
// that a text of brackets alone would overflow the stack.
#ifndef BATON_SDK_COMMON_BASE_JSON_NESTING_H_
#define BATON_SDK_COMMON_BASE_JSON_NESTING_H_

#include <algorithm>
#include <cstddef>

#include "absl/strings/string_view.h"

namespace baton {

/// Values that are nested deeper are refused.
inline constexpr int kMaxNesting = 100;

/// The deepest nesting of brackets outside strings. Never too small for valid JSON.
[[nodiscard]] inline int NestingOf(absl::string_view json) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace baton

#endif  // BATON_SDK_COMMON_BASE_JSON_NESTING_H_
