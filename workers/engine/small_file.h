// Whole small files: configuration, vocabularies. Errors name the file.
#ifndef BATON_WORKERS_ENGINE_SMALL_FILE_H_
#define BATON_WORKERS_ENGINE_SMALL_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::engine {

/// NOT_FOUND when there is no such file, INVALID_ARGUMENT when it is larger than `max_bytes`.
[[nodiscard]] absl::StatusOr<std::string> ReadSmallFile(const std::string& path, size_t max_bytes);

/// Replaces the file at once (a temporary file beside it, flushed to disk, then renamed): readers
/// see the old content or the new.
[[nodiscard]] absl::Status WriteSmallFile(const std::string& path, absl::string_view content);

}  // namespace baton::engine

#endif  // BATON_WORKERS_ENGINE_SMALL_FILE_H_
