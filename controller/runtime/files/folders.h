// Copies of files that never change, folders that survive a power cut, and resolved paths.
#ifndef BATON_CONTROLLER_RUNTIME_FILES_FOLDERS_H_
#define BATON_CONTROLLER_RUNTIME_FILES_FOLDERS_H_

#include <filesystem>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton::controller {

/// True if `path` is `folder` or below it, after links and ".." are resolved. A path that does not
/// exist is judged by its nearest existing parent.
bool IsBelow(const std::filesystem::path& path, const std::filesystem::path& folder);
/// Syncs a folder, so that the names in it survive a power cut. INTERNAL.
absl::Status SyncFolder(const std::filesystem::path& folder);
/// Syncs a file, so that its content survives a power cut. INTERNAL.
absl::Status SyncFile(const std::filesystem::path& file);
/// Creates a folder and its missing parents, so that all of them survive a power cut.
/// RESOURCE_EXHAUSTED (disk full), UNAVAILABLE.
absl::Status MakeFolder(const std::filesystem::path& folder);
/// The entries of a folder; empty if the folder does not exist. UNAVAILABLE: the folder cannot be
/// read, which is not the same as an empty folder.
absl::StatusOr<std::vector<std::filesystem::directory_entry>> ListFolder(
    const std::filesystem::path& folder);
/// Makes a hard link to a file of the controller's own (IsOwnFile); makes a copy of any other file,
/// or if the file system cannot link. Creates missing folders of `to`. An existing file is replaced
/// once the new one is complete. Survives a power cut. RESOURCE_EXHAUSTED (disk full) and
/// UNAVAILABLE name both paths; INVALID_ARGUMENT: `from` is not a regular file.
absl::Status LinkFile(const std::filesystem::path& from, const std::filesystem::path& to);
/// Does the same for all files of a folder. Deletes nothing: ALREADY_EXISTS if `to` exists and is
/// not an empty folder. INVALID_ARGUMENT: one folder is the other or lies in it (after links are
/// resolved), or a link in `from` leads out of it.
absl::Status LinkFolder(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace baton::controller

#endif  // BATON_CONTROLLER_RUNTIME_FILES_FOLDERS_H_
