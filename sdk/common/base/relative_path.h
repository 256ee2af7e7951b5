// Relative paths that come from others.
#ifndef BATON_SDK_COMMON_BASE_RELATIVE_PATH_H_
#define BATON_SDK_COMMON_BASE_RELATIVE_PATH_H_

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace baton {

/// True when `path`, appended to a folder, names something in it: it is relative, has no part ".."
/// or ".", no empty part and no NUL. Links are not looked at.
inline bool StaysBelow(absl::string_view path) {
  if (path.find('\0') != absl::string_view::npos) return false;
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

}  // namespace baton

#endif  // BATON_SDK_COMMON_BASE_RELATIVE_PATH_H_
