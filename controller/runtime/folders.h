// Copies of files that never change, folders that outlive a power cut, and where paths lead.
#ifndef BATON_CONTROLLER_RUNTIME_FOLDERS_H_
#define BATON_CONTROLLER_RUNTIME_FOLDERS_H_

#include <filesystem>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::controller {

/// True when `path` is `folder` or below it, once links and ".." are followed. A path that does not
/// exist is judged by its nearest parent that does.
bool IsBelow(const std::filesystem::path& path, const std::filesystem::path& folder);
/// Makes the names in a folder survive a power cut. INTERNAL.
absl::Status SyncFolder(const std::filesystem::path& folder);
/// Makes a file's content survive a power cut. INTERNAL.
absl::Status SyncFile(const std::filesystem::path& file);
/// Makes a folder and those it stands in, where they are missing, and all of them survive a power
/// cut. RESOURCE_EXHAUSTED (disk full), UNAVAILABLE.
absl::Status MakeFolder(const std::filesystem::path& folder);
/// What stands in a folder; nothing where there is none. UNAVAILABLE: it cannot be read, which is
/// not to be taken for an empty one.
absl::StatusOr<std::vector<std::filesystem::directory_entry>> ListFolder(
    const std::filesystem::path& folder);
/// A second name for a file, or a copy where the file system cannot give one; folders on the way
/// are made, and a file that stood there is replaced once the new one is whole. It survives a power
/// cut. RESOURCE_EXHAUSTED (disk full) and UNAVAILABLE name both; INVALID_ARGUMENT: `from` is not a
/// regular file.
absl::Status LinkFile(const std::filesystem::path& from, const std::filesystem::path& to);
/// The same of everything in a folder. Deletes nothing: ALREADY_EXISTS when `to` exists and is not
/// an empty folder. INVALID_ARGUMENT when one folder is the other or lies in it (links are followed
/// first), or when a link in `from` leads out of it.
absl::Status LinkFolder(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_FOLDERS_H_
