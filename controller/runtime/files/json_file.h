// Files that hold one message as JSON: job.json and files.json of a checkpoint, replay.json.
//
// Anybody may have written such a file, because users upload files and name folders. So it is read
// within bounds, in bytes and in the number of values: a value of three bytes may take a hundred in
// memory. All functions block.
#ifndef BATON_CONTROLLER_RUNTIME_FILES_JSON_FILE_H_
#define BATON_CONTROLLER_RUNTIME_FILES_JSON_FILE_H_

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace baton::controller {

inline constexpr uint64_t kMostJsonBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMostJsonValues = uint64_t{1} << 20;

/// Reads a regular file of at most kMostJsonBytes with at most kMostJsonValues values; unknown
/// fields, of a later release, are passed over. NOT_FOUND; DATA_LOSS: "PATH what is wrong with it".
absl::Status ReadJsonFile(const std::filesystem::path& path, google::protobuf::Message* message);

/// Replaces such a file at once: after a crash or a power cut it is the old one or the new one.
/// Other links to the old one keep it. RESOURCE_EXHAUSTED: the disk is full. UNAVAILABLE: other
/// errors.
absl::Status ReplaceJsonFile(const std::filesystem::path& path,
                             const google::protobuf::Message& message);

/// The text of such a file. OUT_OF_RANGE: ReadJsonFile would refuse it.
absl::StatusOr<std::string> JsonText(const google::protobuf::Message& message);

/// Commas, brackets and braces outside of strings: at least as many as there are values. Pure.
uint64_t CountJsonValues(absl::string_view json);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_FILES_JSON_FILE_H_
