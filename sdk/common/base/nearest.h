// Suggestions for an unknown name.
#ifndef BATON_SDK_COMMON_BASE_NEAREST_H_
#define BATON_SDK_COMMON_BASE_NEAREST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace baton {

/// The one of `known` that `given` was probably meant to be, by Levenshtein's distance; null when
/// none is near. Among equally near ones the first.
const std::string* Nearest(absl::string_view given, const std::vector<std::string>& known);

}  // namespace baton

#endif  // BATON_SDK_COMMON_BASE_NEAREST_H_
