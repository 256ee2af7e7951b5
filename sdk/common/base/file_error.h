// Errors of files as statuses.
#ifndef BATON_SDK_COMMON_BASE_FILE_ERROR_H_
#define BATON_SDK_COMMON_BASE_FILE_ERROR_H_

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace baton {

/// True for the errors that end when room is made: no space, a quota, a limit of the file.
inline bool IsDiskFull(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

/// "WHAT PATH: the text of `error`, a value of errno". RESOURCE_EXHAUSTED: the disk is full; else
/// INTERNAL.
inline absl::Status FileError(absl::string_view what, absl::string_view path, int error) {
  const auto code =
      IsDiskFull(error) ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kInternal;
  return absl::Status(code,
                      absl::StrCat(what, " ", path, ": ", std::generic_category().message(error)));
}

}  // namespace baton

#endif  // BATON_SDK_COMMON_BASE_FILE_ERROR_H_
