// Names of uploaded files: `files/PROJECT/SHA256/NAME` below the data root.
#ifndef BATON_CONTROLLER_RUNTIME_UPLOAD_PATH_H_
#define BATON_CONTROLLER_RUNTIME_UPLOAD_PATH_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace baton::controller {

struct UploadPath {
  std::string project;  ///< Empty: an upload of an earlier release, `files/XXH3-128/NAME`.
  /// The hash in lower-case hexadecimal: 64 digits, or 32 of an earlier release.
  std::string content;
  std::string name;
};

/// Empty if `path`, relative to the data root, cannot be that of an uploaded file.
std::optional<UploadPath> ParseUploadPath(absl::string_view path);

/// Whether `text` consists of exactly `digits` lower-case hexadecimal digits.
bool IsHex(absl::string_view text, size_t digits);

/// The last part of a caller's name for a file, made safe for every file system: no separator, no
/// control character, at most 200 bytes of whole UTF-8 characters, never empty, "." or "..".
std::string UploadName(const std::string& name);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_UPLOAD_PATH_H_
