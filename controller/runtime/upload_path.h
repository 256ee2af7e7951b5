// Names of uploaded files: `files/PROJECT/SHA256/NAME` below the data root.
#ifndef BATON_CONTROLLER_RUNTIME_UPLOAD_PATH_H_
#define BATON_CONTROLLER_RUNTIME_UPLOAD_PATH_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace baton::controller {

struct UploadPath {
  std::string project;  ///< Empty: an earlier release kept it, as `files/XXH3-128/NAME`.
  std::string content;  ///< The hash, in lower-case hexadecimal: 64 digits, or 32 of the old one.
  std::string name;
};

/// Nothing when `path`, relative to the data root, cannot be that of an uploaded file.
std::optional<UploadPath> ParseUploadPath(absl::string_view path);

/// Whether `text` has `digits` lower-case hexadecimal digits and nothing else.
bool IsHex(absl::string_view text, size_t digits);

/// The last part of what a caller calls a file, fit for any file system: no separator, no control
/// character, 200 bytes of whole UTF-8 characters, never empty, "." or "..".
std::string UploadName(const std::string& name);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_UPLOAD_PATH_H_
