// Files that hold secrets.
#ifndef BATON_SDK_COMMON_BASE_PRIVATE_FILE_H_
#define BATON_SDK_COMMON_BASE_PRIVATE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

/// `flag` names the file in messages. NOT_FOUND: there is no such file. INVALID_ARGUMENT: others
/// than its owner may read or change it.
[[nodiscard]] absl::Status CheckPrivate(absl::string_view flag, const std::string& path);

/// The first line of `path` that is neither empty nor begins with '#', without the space around it.
/// Errors of CheckPrivate; NOT_FOUND: it has no such line.
absl::StatusOr<std::string> ReadTokenFile(absl::string_view flag, const std::string& path);

/// Makes an empty file that its owner alone may read, unless there is one; closes one that is there
/// to all others. UNAVAILABLE: it cannot be done.
[[nodiscard]] absl::Status MakePrivate(const std::string& path);

}  // namespace baton

#endif  // BATON_SDK_COMMON_BASE_PRIVATE_FILE_H_
