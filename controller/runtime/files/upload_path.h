// Names of uploaded files: `files/PROJECT/SHA256/NAME` below the data root.
#ifndef BATON_CONTROLLER_RUNTIME_FILES_UPLOAD_PATH_H_
#define BATON_CONTROLLER_RUNTIME_FILES_UPLOAD_PATH_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace baton::controller {

struct UploadPath {
  std::string project;
  std::string content;  ///< Its SHA-256 (IsSha256).
  std::string name;
};

/// The parts of an uploaded file's path; empty if `path`, relative to the data root, cannot be one.
std::optional<UploadPath> ParseUploadPath(absl::string_view path);

/// True if `text` can be a SHA-256: 64 lower-case hexadecimal digits.
bool IsSha256(absl::string_view text);

/// The last part of a caller's name for a file, made safe for every file system: no separator, no
/// control character, at most 200 bytes of whole UTF-8 characters, never empty, "." or "..".
std::string UploadName(const std::string& name);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_FILES_UPLOAD_PATH_H_
