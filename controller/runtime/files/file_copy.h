// Copies of files that others may have written.
//
// A hard link is the same file under another name: a user who may write one also writes the other.
// So the controller links only files of its own, and copies all others: by reflink where the file
// system has them, else block by block without the holes. All functions block.
#ifndef BATON_CONTROLLER_RUNTIME_FILES_FILE_COPY_H_
#define BATON_CONTROLLER_RUNTIME_FILES_FILE_COPY_H_

#include <filesystem>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace baton::controller {

/// True if the file belongs to the controller's user, and nobody else may write it.
bool IsOwnFile(const std::filesystem::path& file);

/// A copy of the regular file `from`, with its holes, as the new file `to`; `to` is synced, and its
/// folder is not. Returns the XXH3-64 of the bytes of `to`, hexadecimal, as in a checkpoint's
/// files.json. `stop`: polled now and then; true ends the copy with CANCELLED. Null: never.
/// INVALID_ARGUMENT: `from` is no regular file. NOT_FOUND. RESOURCE_EXHAUSTED: the disk is full.
/// UNAVAILABLE: other errors. After an error there is no `to`.
absl::StatusOr<std::string> CopyAndHash(const std::filesystem::path& from,
                                        const std::filesystem::path& to,
                                        const std::function<bool()>& stop = nullptr);

/// The XXH3-64 of a regular file, hexadecimal. Errors as CopyAndHash.
absl::StatusOr<std::string> HashOfFile(const std::filesystem::path& file,
                                       const std::function<bool()>& stop = nullptr);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_FILES_FILE_COPY_H_
